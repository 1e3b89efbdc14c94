//! A file of text, from some place on, decompressed.

use crate::codec::Codec;
use crate::decompressed::{SourceRead, most_expanded};
use std::io::{self, Read};
use std::sync::Arc;
use tensorferry_sdk::{Error, FileId, Limits, Result, Source};

/// A file of text, which may be compressed as a whole.
#[derive(Clone)]
pub struct TextFile {
    source: Arc<dyn Source>,
    file: FileId,
    codec: Codec,
}

impl TextFile {
    /// A source's file; its first bytes say how it is compressed.
    ///
    /// # Errors
    /// I/o.
    pub fn open(source: &Arc<dyn Source>, name: &str) -> Result<Self> {
        let codec = Codec::of_file(source.as_ref(), name)?;
        Ok(Self { source: source.clone(), file: source.open(name)?, codec })
    }

    /// Its name in the source.
    #[must_use]
    pub fn name(&self) -> &str {
        self.source.name(self.file)
    }

    /// Its length as it is stored.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "the length of a file")]
    pub fn len(&self) -> u64 {
        self.source.len(self.file)
    }

    /// Whether the text lies in it as it is.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.codec == Codec::Plain
    }

    /// Fills a buffer with what is stored at a place of it.
    ///
    /// # Errors
    /// I/o, and what ends before.
    pub fn read_at(&self, at: u64, buffer: &mut [u8]) -> Result<()> {
        self.source.read_at(self.file, at, buffer)
    }

    /// A part of it, as it is stored.
    pub fn stored(&self, start: u64, end: u64) -> impl Read + Send + use<> {
        SourceRead::new(&self.source, self.file, start, end)
    }

    /// A part of it, decompressed; more than the limits allow are an error of the reader.
    ///
    /// # Errors
    /// I/o.
    pub fn bytes(&self, start: u64, end: u64, limits: &Limits) -> Result<Box<dyn Read + Send>> {
        let stored = self.stored(start, end);
        let bytes = self.codec.decompressed(stored).map_err(|error| self.failed(error))?;
        if self.is_plain() {
            return Ok(bytes);
        }
        let most = most_expanded(end - start, limits);
        Ok(Box::new(Bounded { bytes, most, left: most }))
    }

    /// What an error while the text was read means: the source's own, or a codec's.
    #[must_use]
    pub fn failed(&self, error: io::Error) -> Error {
        let kind = error.kind();
        let error = match error.downcast::<Error>() {
            Ok(own) => own,
            Err(codec) if self.is_plain() => Error::from(codec),
            Err(_) if kind == io::ErrorKind::UnexpectedEof => {
                Error::malformed("the compressed file is cut off")
            }
            Err(codec) => Error::malformed(format!("the compressed file makes no sense: {codec}")),
        };
        error.file(self.name())
    }
}

/// Ends a bomb.
struct Bounded<R> {
    bytes: R,
    most: u64,
    left: u64,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.bytes.read(buffer)?;
        self.left = self.left.checked_sub(len as u64).ok_or_else(|| {
            let error =
                Error::limit("the compressed file holds too much (--bound expanded_bytes=N allows more)");
            io::Error::other(error.expected(format!("at most {} bytes", self.most)))
        })?;
        Ok(len)
    }
}
