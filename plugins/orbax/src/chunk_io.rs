//! Input and output for decoders: a reader of a span, and a sink that checks the length of a chunk.

use crate::span::Span;
use std::io::{self, Read};
use tensorferry_sdk::{ByteSink, Error, Result, Source};

/// Reads a span from start to end. The reader keeps the first read error, because a decoder would
/// replace it with its own error.
pub(crate) struct SpanReader<'a> {
    pub(crate) source: &'a dyn Source,
    pub(crate) span: &'a Span,
    pub(crate) at: u64,
    pub(crate) end: u64,
    pub(crate) failed: Option<Error>,
}

impl Read for SpanReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = usize::try_from(self.end - self.at).map_or(buffer.len(), |left| left.min(buffer.len()));
        match self.span.read_at(self.source, self.at, &mut buffer[..len]) {
            Ok(()) => {
                self.at += len as u64;
                Ok(len)
            }
            Err(error) => {
                self.failed = Some(error);
                Err(io::Error::other("a read failed"))
            }
        }
    }
}

/// A sink for a decoded chunk. It accepts exactly the number of bytes that the chunk must have.
pub(crate) struct SizedSink<'a> {
    pub(crate) output: &'a mut dyn ByteSink,
    pub(crate) left: u64,
    pub(crate) len: u64,
}

impl SizedSink<'_> {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or_else(|| {
            let error = Error::malformed("a decoded chunk is longer than its shape");
            error.expected(format!("{} bytes", self.len)).found("more")
        })?;
        self.output.write(bytes)
    }

    pub(crate) fn finish(self) -> Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        let error = Error::malformed("a decoded chunk is shorter than its shape");
        Err(error.expected(format!("{} bytes", self.len)).found(self.len - self.left))
    }
}
