//! Reads the bytes of a tar in order. A plain file is read at explicit offsets, and a compressed
//! file is decompressed as a stream.

use std::sync::Arc;
use tensorferry_row_text::{Codec, DecompressedReader, SourceRead};
use tensorferry_sdk::records::FileCursor;
use tensorferry_sdk::{Error, Limits, Result, Source};

/// Returns the codec of a tar whose first bytes are `first`.
pub(crate) fn codec_of(first: &[u8]) -> Result<Codec> {
    let named = |name| {
        Err(Error::unsupported(format!("the tar is compressed with {name}")).hint("unpack the file first"))
    };
    match first {
        [b'B', b'Z', b'h', b'1'..=b'9', b'1', b'A', ..] => named("bzip2"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => named("xz"),
        _ => Ok(Codec::of_bytes(first)),
    }
}

pub(crate) fn codec_of_file(source: &dyn Source, name: &str) -> Result<Codec> {
    codec_of(&source.beginning(source.open(name)?, 6)?).map_err(|error| error.file(name))
}

/// The bytes of a tar, starting at the current position.
pub(crate) enum Input {
    Plain(FileCursor),
    Compressed(DecompressedReader),
}

impl Input {
    /// Opens a file at its beginning.
    pub(crate) fn open(source: &Arc<dyn Source>, name: &str, codec: Codec, limits: &Limits) -> Result<Self> {
        if codec == Codec::Plain {
            return FileCursor::new(source, name, limits).map(Self::Plain);
        }
        let file = source.open(name)?;
        let len = source.len(file);
        let reader = codec.decompressed(SourceRead::new(source, file, 0, len))?;
        Ok(Self::Compressed(DecompressedReader::new(name, "file", reader, len, limits)))
    }

    pub(crate) fn file_name(&self) -> &str {
        match self {
            Self::Plain(file) => file.file_name(),
            Self::Compressed(file) => file.file_name(),
        }
    }

    /// Returns the offset of the next byte in the uncompressed tar.
    pub(crate) fn offset(&self) -> u64 {
        match self {
            Self::Plain(file) => file.offset(),
            Self::Compressed(file) => file.offset(),
        }
    }

    pub(crate) fn take(&mut self, len: u64) -> Result<&[u8]> {
        match self {
            Self::Plain(file) => file.take(len),
            Self::Compressed(file) => {
                file.check_held(len)?;
                match file.advance(len)? {
                    found if found < len => Err(file.truncated(len).found(found)),
                    _ => Ok(file.window()),
                }
            }
        }
    }

    /// Returns the next block of 512 bytes, or `None` at the end of the tar.
    pub(crate) fn block(&mut self) -> Result<Option<[u8; 512]>> {
        match self {
            Self::Plain(file) if file.is_at_end() => Ok(None),
            Self::Plain(file) => file.array().map(Some),
            Self::Compressed(file) => {
                let mut block = [0; 512];
                match file.fill(&mut block)? {
                    0 => Ok(None),
                    512 => Ok(Some(block)),
                    found => Err(file.truncated(512).found(found)),
                }
            }
        }
    }

    pub(crate) fn skip(&mut self, len: u64) -> Result<()> {
        match self {
            Self::Plain(file) => file.skip(len),
            Self::Compressed(file) => {
                let (mut passed, mut buffer) = (0, [0; 8192]);
                while passed < len {
                    let max = usize::try_from(len - passed).unwrap_or(usize::MAX).min(buffer.len());
                    match file.fill(&mut buffer[..max])? {
                        0 => return Err(file.truncated(len).found(passed)),
                        read => passed += read as u64,
                    }
                }
                Ok(())
            }
        }
    }
}

impl Input {
    pub(crate) fn of_memory(bytes: Vec<u8>) -> Option<Self> {
        let source: Arc<dyn Source> = Arc::new(tensorferry_sdk::MemorySource::file("first", bytes));
        Self::open(&source, "first", Codec::Plain, &Limits::default()).ok()
    }
}
