//! Reads the decompressed bytes of a text file, from any position.

use crate::codec::Codec;
use crate::decompressed::{SourceRead, max_expanded_len};
use std::io::{self, Read};
use std::sync::Arc;
use tensorferry_sdk::{Error, FileId, Limits, Result, Source};

/// A text file that may be compressed as a whole.
#[derive(Clone)]
pub struct TextFile {
    source: Arc<dyn Source>,
    file: FileId,
    codec: Codec,
}

impl TextFile {
    /// Opens a file and detects its compression from the first bytes.
    pub fn open(source: &Arc<dyn Source>, name: &str) -> Result<Self> {
        let codec = Codec::of_file(source.as_ref(), name)?;
        Ok(Self { source: source.clone(), file: source.open(name)?, codec })
    }

    #[must_use]
    pub fn name(&self) -> &str {
        self.source.name(self.file)
    }

    /// Returns the stored length in bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "the length of a file")]
    pub fn len(&self) -> u64 {
        self.source.len(self.file)
    }

    /// Returns whether the file is not compressed.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.codec == Codec::Plain
    }

    /// Reads stored bytes at an offset.
    pub fn read_at(&self, at: u64, buffer: &mut [u8]) -> Result<()> {
        self.source.read_at(self.file, at, buffer)
    }

    /// Returns a reader for a range of the stored bytes.
    pub fn stored(&self, start: u64, end: u64) -> impl Read + Send + use<> {
        SourceRead::new(&self.source, self.file, start, end)
    }

    /// Returns a reader for the decompressed bytes of a range. The reader fails if the decompressed
    /// data is longer than the limits allow.
    pub fn bytes(&self, start: u64, end: u64, limits: &Limits) -> Result<Box<dyn Read + Send>> {
        let stored = self.stored(start, end);
        let bytes = self.codec.decompressed(stored).map_err(|error| self.failed(error))?;
        if self.is_plain() {
            return Ok(bytes);
        }
        let max = max_expanded_len(end - start, limits);
        Ok(Box::new(BoundedReader { bytes, max, left: max }))
    }

    /// Converts a reader error. If the error contains a source error, returns the source error.
    /// Otherwise, returns an error about the compressed file.
    #[must_use]
    pub fn failed(&self, error: io::Error) -> Error {
        let kind = error.kind();
        let error = match error.downcast::<Error>() {
            Ok(own) => own,
            Err(codec) if self.is_plain() => Error::from(codec),
            Err(_) if kind == io::ErrorKind::UnexpectedEof => {
                Error::malformed("the compressed file is truncated")
            }
            Err(codec) => Error::malformed(format!("the compressed file is damaged: {codec}")),
        };
        error.file(self.name())
    }
}

/// A reader that fails after a maximum number of bytes, as a protection against decompression
/// bombs.
struct BoundedReader<R> {
    bytes: R,
    max: u64,
    left: u64,
}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.bytes.read(buffer)?;
        self.left = self.left.checked_sub(len as u64).ok_or_else(|| {
            let error = Error::limit("the compressed file expands to too many bytes");
            io::Error::other(
                error
                    .hint("raise the limit with --limit expanded_bytes=N")
                    .expected(format!("at most {} bytes", self.max)),
            )
        })?;
        Ok(len)
    }
}
