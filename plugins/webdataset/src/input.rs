//! The bytes of a tar in order: of a plain file by position, or of one that is compressed as a whole.

use std::io::{self, BufReader, Read};
use std::sync::Arc;
use tensorferry_row_text::{begins_with_skippable_frame, gzip_members};
use tensorferry_sdk::records::FileCursor;
use tensorferry_sdk::{Error, FileId, Limits, Result, Source};

/// How a file is compressed, which its first bytes say and not its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    /// Not at all.
    Plain,
    /// RFC 1952, of one or more members.
    Gzip,
    /// RFC 8878.
    Zstd,
}

impl Codec {
    /// The codec of bytes that begin so.
    ///
    /// # Errors
    /// Unsupported: bzip2 and xz.
    pub(crate) fn of_bytes(first: &[u8]) -> Result<Self> {
        let named =
            |name| Err(Error::unsupported(format!("a tar that is compressed with {name}: unpack it first")));
        match first {
            [0x1f, 0x8b, 8, ..] => Ok(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Ok(Self::Zstd),
            _ if begins_with_skippable_frame(first) => Ok(Self::Zstd),
            [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', ..] => named("bzip2"),
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => named("xz"),
            _ => Ok(Self::Plain),
        }
    }

    /// The codec of a file.
    ///
    /// # Errors
    /// As of [`of_bytes`](Self::of_bytes); i/o.
    pub(crate) fn of_file(source: &dyn Source, name: &str) -> Result<Self> {
        let first = source.beginning(source.open(name)?, 6)?;
        Self::of_bytes(&first).map_err(|error| error.file(name))
    }
}

/// The bytes of a tar, from some place on.
pub(crate) enum Input {
    /// As they lie in the file.
    Plain(FileCursor),
    /// Decompressed on the way.
    Compressed(Decompressed),
}

/// The bytes of a compressed file.
pub(crate) struct Decompressed {
    name: String,
    reader: Box<dyn Read + Send>,
    offset: u64,
    /// What it may come to.
    most: u64,
    header_bytes: u64,
    window: Vec<u8>,
}

impl Input {
    /// The beginning of a file.
    ///
    /// # Errors
    /// I/o.
    pub(crate) fn open(source: &Arc<dyn Source>, name: &str, codec: Codec, limits: &Limits) -> Result<Self> {
        if codec == Codec::Plain {
            return FileCursor::new(source, name, limits).map(Self::Plain);
        }
        let file = source.open(name)?;
        let bytes = SourceReader { source: source.clone(), file, offset: 0 };
        let len = source.len(file);
        let reader: Box<dyn Read + Send> = match codec {
            Codec::Zstd => Box::new(zstd::stream::read::Decoder::new(bytes)?),
            _ => Box::new(gzip_members(BufReader::with_capacity(256 << 10, bytes))),
        };
        Ok(Self::Compressed(Decompressed {
            name: name.to_owned(),
            reader,
            offset: 0,
            most: len.saturating_mul(1000).saturating_add(limits.expanded_bytes),
            header_bytes: limits.header_bytes,
            window: Vec::new(),
        }))
    }

    pub(crate) fn file_name(&self) -> &str {
        match self {
            Self::Plain(file) => file.file_name(),
            Self::Compressed(file) => &file.name,
        }
    }

    /// Where the next byte lies, once decompressed.
    pub(crate) fn offset(&self) -> u64 {
        match self {
            Self::Plain(file) => file.offset(),
            Self::Compressed(file) => file.offset,
        }
    }

    /// The next bytes.
    ///
    /// # Errors
    /// Malformed: there are not so many; a limit.
    pub(crate) fn take(&mut self, len: u64) -> Result<&[u8]> {
        match self {
            Self::Plain(file) => file.take(len),
            Self::Compressed(file) => file.take(len),
        }
    }

    /// The next block; none at the end.
    ///
    /// # Errors
    /// Malformed: it is cut.
    pub(crate) fn block(&mut self) -> Result<Option<[u8; 512]>> {
        match self {
            Self::Plain(file) if file.is_at_end() => Ok(None),
            Self::Plain(file) => file.array().map(Some),
            Self::Compressed(file) => {
                let mut block = [0; 512];
                match file.fill(&mut block)? {
                    0 => Ok(None),
                    512 => Ok(Some(block)),
                    found => Err(file.cut(512, found as u64)),
                }
            }
        }
    }

    /// Goes past bytes.
    ///
    /// # Errors
    /// Malformed: there are not so many.
    pub(crate) fn skip(&mut self, len: u64) -> Result<()> {
        match self {
            Self::Plain(file) => file.skip(len),
            Self::Compressed(file) => match file.pass(len)? {
                passed if passed == len => Ok(()),
                passed => Err(file.cut(len, passed)),
            },
        }
    }
}

impl Decompressed {
    fn cut(&self, expected: u64, found: u64) -> Error {
        let error = Error::malformed("the file ends too early").file(&self.name).offset(self.offset);
        error.expected(format!("{expected} more bytes")).found(found)
    }

    /// Fills as much as there is.
    fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.reader.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.damaged(error)),
            }
        }
        self.offset += filled as u64;
        if self.offset > self.most {
            return Err(Error::limit("a compressed file that holds too much")
                .file(&self.name)
                .expected(format!("at most {} bytes, or --bound expanded_bytes=N", self.most)));
        }
        Ok(filled)
    }

    fn damaged(&self, error: io::Error) -> Error {
        let own = error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Error>);
        let error = if own {
            Error::from(error)
        } else {
            Error::malformed(format!("a damaged compressed file: {error}"))
        };
        error.file(&self.name).offset(self.offset)
    }

    fn pass(&mut self, len: u64) -> Result<u64> {
        let (mut passed, mut buffer) = (0, [0; 8192]);
        while passed < len {
            let most = usize::try_from(len - passed).unwrap_or(usize::MAX).min(buffer.len());
            match self.fill(&mut buffer[..most])? {
                0 => break,
                read => passed += read as u64,
            }
        }
        Ok(passed)
    }

    fn take(&mut self, len: u64) -> Result<&[u8]> {
        if len > self.header_bytes {
            return Err(Error::limit("too long to hold in memory")
                .file(&self.name)
                .expected(format!("at most {} bytes, or --bound header_bytes=N", self.header_bytes))
                .found(len));
        }
        let mut window = std::mem::take(&mut self.window);
        window.clear();
        // As long as what is there, and not as what is said.
        let mut chunk = [0; 16 << 10];
        while (window.len() as u64) < len {
            let most =
                usize::try_from(len).unwrap_or(usize::MAX).saturating_sub(window.len()).min(chunk.len());
            match self.fill(&mut chunk[..most])? {
                0 => return Err(self.cut(len, window.len() as u64)),
                read => window.extend_from_slice(&chunk[..read]),
            }
        }
        self.window = window;
        Ok(&self.window)
    }
}

/// Reads a file of a source in order.
struct SourceReader {
    source: Arc<dyn Source>,
    file: FileId,
    offset: u64,
}

impl Read for SourceReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.source.len(self.file).saturating_sub(self.offset);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        self.source.read_at(self.file, self.offset, &mut buffer[..len]).map_err(io::Error::other)?;
        self.offset += len as u64;
        Ok(len)
    }
}

impl Input {
    /// Bytes that are in memory.
    pub(crate) fn of_memory(bytes: Vec<u8>) -> Option<Self> {
        let source: Arc<dyn Source> = Arc::new(tensorferry_sdk::MemorySource::file("first", bytes));
        Self::open(&source, "first", Codec::Plain, &Limits::default()).ok()
    }
}
