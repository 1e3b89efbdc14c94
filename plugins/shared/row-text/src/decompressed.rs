//! The bytes of a compressed file, in order.

use std::io::{self, Read};
use std::sync::Arc;
use tensorferry_sdk::{Error, FileId, Limits, Result, Source};

/// Bytes per read.
const CHUNK: usize = 64 << 10;
/// Expansion per byte that is always allowed. Deflate's maximum is 1032, and text expands far less.
const MAX_EXPANSION: u64 = 1000;

/// Returns the maximum decompressed length of `len` bytes.
#[must_use]
pub fn max_expanded_len(len: u64, limits: &Limits) -> u64 {
    len.saturating_mul(MAX_EXPANSION).saturating_add(limits.expanded_bytes)
}

/// Converts a codec's error: to the source's own error if it has one, and otherwise to one about a
/// damaged file, which `noun` describes.
#[must_use]
pub fn damaged(noun: &str, error: io::Error) -> Error {
    error.downcast::<Error>().unwrap_or_else(|codec| {
        Error::malformed(format!("the compressed {noun} is damaged: {}", codec.to_string().escape_debug()))
    })
}

/// A reader of a compressed file.
pub struct Decompressed {
    name: String,
    noun: &'static str,
    reader: Box<dyn Read + Send>,
    offset: u64,
    /// Maximum decompressed length.
    max: u64,
    header_bytes: u64,
    /// Buffer whose first `held` bytes were read last.
    window: Vec<u8>,
    held: usize,
}

impl Decompressed {
    /// Creates a reader of decompressed bytes from a file of `len` bytes. Errors call the file
    /// `noun`.
    #[must_use]
    pub fn new(
        name: &str,
        noun: &'static str,
        reader: Box<dyn Read + Send>,
        len: u64,
        limits: &Limits,
    ) -> Self {
        let (max, header_bytes) = (max_expanded_len(len, limits), limits.header_bytes);
        Self {
            name: name.to_owned(),
            noun,
            reader,
            offset: 0,
            max,
            header_bytes,
            window: Vec::new(),
            held: 0,
        }
    }

    #[must_use]
    pub fn file_name(&self) -> &str {
        &self.name
    }

    /// Returns the offset of the next byte in the decompressed data.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the error for a file that lacks `missing` bytes at its end.
    #[must_use]
    pub fn truncated(&self, missing: u64) -> Error {
        let error = Error::malformed(format!("the {} ends too early", self.noun));
        error.file(&self.name).offset(self.offset).expected(format!("{missing} more bytes"))
    }

    /// Reads as many bytes as `buffer` holds, or fewer at the end.
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
            if self.offset > self.max {
                return Err(Error::limit(format!("the compressed {} expands to too many bytes", self.noun))
                    .file(&self.name)
                    .hint("raise the limit with --limit expanded_bytes=N")
                    .expected(format!("at most {} bytes", self.max)));
            }
        }
        Ok(filled)
    }

    /// Checks that `len` bytes may be held in memory.
    pub fn check_held(&self, len: u64) -> Result<()> {
        if len <= self.header_bytes {
            return Ok(());
        }
        Err(Error::limit("too long to hold in memory")
            .file(&self.name)
            .hint("raise the limit with --limit header_bytes=N")
            .expected(format!("at most {} bytes", self.header_bytes))
            .found(len))
    }

    /// Reads the next bytes into the [window](Self::window), and returns how many there were.
    pub fn advance(&mut self, len: u64) -> Result<u64> {
        let mut window = std::mem::take(&mut self.window);
        // Grow the window with the data that exists, not to the length that is claimed.
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

    /// Returns the bytes that were read last.
    #[must_use]
    pub fn window(&self) -> &[u8] {
        &self.window[..self.held]
    }
}

/// A reader of a range of a source's file.
pub struct SourceRead {
    source: Arc<dyn Source>,
    file: FileId,
    at: u64,
    end: u64,
}

impl SourceRead {
    /// Reads from `start` up to `end`.
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
