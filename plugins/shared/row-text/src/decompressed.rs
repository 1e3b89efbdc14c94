//! The bytes of a file that is compressed as a whole, in order.

use std::io::{self, Read};
use std::sync::Arc;
use tensorferry_sdk::{Error, FileId, Limits, Result, Source};

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;
/// What a byte may become whatever the limits are: deflate makes at most 1032 of one, and of text far less.
const MOST_EXPANSION: u64 = 1000;

/// What so many bytes may come to, once decompressed.
#[must_use]
pub fn most_expanded(len: u64, limits: &Limits) -> u64 {
    len.saturating_mul(MOST_EXPANSION).saturating_add(limits.expanded_bytes)
}

/// What an error of a codec's reader means: the source's own, or that the file is damaged, which `noun` says what it is.
#[must_use]
pub fn damaged(noun: &str, error: io::Error) -> Error {
    error.downcast::<Error>().unwrap_or_else(|codec| {
        Error::malformed(format!("a damaged compressed {noun}: {}", codec.to_string().escape_debug()))
    })
}

/// The bytes of a compressed file.
pub struct Decompressed {
    name: String,
    noun: &'static str,
    reader: Box<dyn Read + Send>,
    offset: u64,
    /// What it may come to.
    most: u64,
    header_bytes: u64,
    /// Of which the first bytes came last.
    window: Vec<u8>,
    held: usize,
}

impl Decompressed {
    /// Those that a codec makes of a file of `len` bytes; errors call it `noun`.
    #[must_use]
    pub fn new(
        name: &str,
        noun: &'static str,
        reader: Box<dyn Read + Send>,
        len: u64,
        limits: &Limits,
    ) -> Self {
        let (most, header_bytes) = (most_expanded(len, limits), limits.header_bytes);
        Self {
            name: name.to_owned(),
            noun,
            reader,
            offset: 0,
            most,
            header_bytes,
            window: Vec::new(),
            held: 0,
        }
    }

    /// The file's name.
    #[must_use]
    pub fn file_name(&self) -> &str {
        &self.name
    }

    /// Where the next byte lies, once decompressed.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The error of a file that ends before so many more bytes.
    #[must_use]
    pub fn cut(&self, missing: u64) -> Error {
        let error = Error::malformed(format!("the {} ends too early", self.noun));
        error.file(&self.name).offset(self.offset).expected(format!("{missing} more bytes"))
    }

    /// Fills as much of a buffer as there is.
    ///
    /// # Errors
    /// Malformed: the file is damaged; a limit.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let read = match self.reader.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(damaged(self.noun, error).file(&self.name).offset(self.offset)),
            };
            filled += read;
            self.offset += read as u64;
            if self.offset > self.most {
                return Err(Error::limit(format!("a compressed {} that holds too much", self.noun))
                    .file(&self.name)
                    .expected(format!("at most {} bytes, or --bound expanded_bytes=N", self.most)));
            }
        }
        Ok(filled)
    }

    /// Checks that so many bytes may be held at once.
    ///
    /// # Errors
    /// A limit.
    pub fn check_held(&self, len: u64) -> Result<()> {
        if len <= self.header_bytes {
            return Ok(());
        }
        Err(Error::limit("too long to hold in memory")
            .file(&self.name)
            .expected(format!("at most {} bytes, or --bound header_bytes=N", self.header_bytes))
            .found(len))
    }

    /// Puts the next bytes into the [window](Self::window); how many there were.
    ///
    /// # Errors
    /// As of [`fill`](Self::fill).
    pub fn advance(&mut self, len: u64) -> Result<u64> {
        let mut window = std::mem::take(&mut self.window);
        // As long as what is there, and not as what is said.
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.held = 0;
        while self.held < len {
            let end = (self.held + CHUNK.max(self.held)).min(len);
            if window.len() < end {
                window.resize(end, 0);
            }
            match self.fill(&mut window[self.held..end])? {
                0 => break,
                filled => self.held += filled,
            }
        }
        self.window = window;
        Ok(self.held as u64)
    }

    /// The bytes that came last.
    #[must_use]
    pub fn window(&self) -> &[u8] {
        &self.window[..self.held]
    }
}

/// Reads a range of a source's file.
pub struct SourceRead {
    source: Arc<dyn Source>,
    file: FileId,
    at: u64,
    end: u64,
}

impl SourceRead {
    /// From `start` up to `end`.
    #[must_use]
    pub fn new(source: &Arc<dyn Source>, file: FileId, start: u64, end: u64) -> Self {
        Self { source: source.clone(), file, at: start, end }
    }
}

impl Read for SourceRead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let len = left.min(buffer.len());
        self.source.read_at(self.file, self.at, &mut buffer[..len]).map_err(io::Error::other)?;
        self.at += len as u64;
        Ok(len)
    }
}
