//! Reads the decompressed bytes of a compressed file, in order.

use std::io::{self, Read};
use std::sync::Arc;
use tensorferry_sdk::{Error, FileId, Limits, Result, Source};

/// Number of bytes per read.
const CHUNK: usize = 64 << 10;
/// Number of decompressed bytes that are always allowed per compressed byte. Deflate can expand
/// data by a factor of 1032, but text expands much less.
const MAX_EXPANSION: u64 = 1000;

/// Returns the maximum length to which `len` compressed bytes may expand.
#[must_use]
pub fn max_expanded_len(len: u64, limits: &Limits) -> u64 {
    len.saturating_mul(MAX_EXPANSION).saturating_add(limits.expanded_bytes)
}

/// Converts a codec error. If the error contains a source error, returns the source error.
/// Otherwise, returns an error that reports a damaged file. `noun` describes the file.
#[must_use]
pub fn damage_error(noun: &str, error: io::Error) -> Error {
    error.downcast::<Error>().unwrap_or_else(|codec| {
        Error::malformed(format!("the compressed {noun} is damaged: {}", codec.to_string().escape_debug()))
    })
}

/// A reader of a compressed file.
pub struct DecompressedReader {
    name: String,
    noun: &'static str,
    reader: Box<dyn Read + Send>,
    offset: u64,
    /// Maximum decompressed length.
    max: u64,
    header_bytes: u64,
    /// A buffer. The first `held` bytes are the bytes that were read last.
    window: Vec<u8>,
    held: usize,
}

impl DecompressedReader {
    /// Creates a reader for the decompressed bytes of a file, whose stored length is `len`. In
    /// errors, `noun` describes the file.
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

    /// Returns the error for a file that ends `missing` bytes too early.
    #[must_use]
    pub fn truncated(&self, missing: u64) -> Error {
        let error = Error::malformed(format!("the {} ends too early", self.noun));
        error.file(&self.name).offset(self.offset).expected(format!("{missing} more bytes"))
    }

    /// Fills `buffer`. Returns the number of bytes read, which is less than the length of `buffer`
    /// only at the end of the data.
    pub fn fill(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let read = match self.reader.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    return Err(damage_error(self.noun, error).file(&self.name).offset(self.offset));
                }
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

    /// Checks that `len` bytes may be kept in memory.
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

    /// Reads up to `len` bytes into the [window](Self::window), and returns their number.
    pub fn advance(&mut self, len: u64) -> Result<u64> {
        let mut window = std::mem::take(&mut self.window);
        // The window grows only as data is read, because the file may not contain `len` bytes.
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

/// A reader for a range of a file in a source.
pub struct SourceRead {
    source: Arc<dyn Source>,
    file: FileId,
    at: u64,
    end: u64,
}

impl SourceRead {
    /// Creates a reader that starts at `start` and ends at `end`.
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
