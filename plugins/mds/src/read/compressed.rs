//! Sequential reader of a shard that is compressed as a whole.

use crate::codec::Codec;
use crate::hash::Verifier;
use std::sync::Arc;
use tensorferry_row_text::{self as row_text, SourceRead, damage_error, max_expanded_len};
use tensorferry_sdk::{Error, FileId, Limits, Result, Source};

/// Maximum number of bytes that are skipped in one step.
const CHUNK: u64 = 64 << 10;
/// Noun that error messages use for the file.
const NOUN: &str = "shard";

pub(super) struct Decompressed {
    input: row_text::DecompressedReader,
    /// Decompressed length according to the index.
    declared: u64,
    header_bytes: u64,
    verifier: Option<Verifier>,
}

impl Decompressed {
    pub(super) fn new(
        source: &Arc<dyn Source>,
        file: FileId,
        codec: Codec,
        declared: u64,
        verifier: Option<Verifier>,
        limits: &Limits,
    ) -> Result<Self> {
        let (name, len, header_bytes) = (source.name(file), source.len(file), limits.header_bytes);
        let max = declared.min(max_expanded_len(len, limits));
        let reader = codec.decompressed(SourceRead::new(source, file, 0, len), len, max, header_bytes);
        let reader = reader.map_err(|error| damage_error(NOUN, error).file(name))?;
        let input = row_text::DecompressedReader::new(name, NOUN, reader, len, limits);
        Ok(Self { input, declared, header_bytes, verifier })
    }

    /// Returns the offset of the next byte in the decompressed shard.
    pub(super) fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// Returns the next `len` bytes.
    pub(super) fn take(&mut self, len: u64) -> Result<&[u8]> {
        self.input.check_held(len).map_err(|error| error.offset(self.input.offset()))?;
        let found = self.input.advance(len)?;
        if found < len {
            return Err(self.input.truncated(len - found));
        }
        if let Some(verifier) = &mut self.verifier {
            verifier.update(self.input.window());
        }
        Ok(self.input.window())
    }

    pub(super) fn skip(&mut self, len: u64) -> Result<()> {
        let mut left = len;
        while left > 0 {
            let part = left.min(CHUNK).min(self.header_bytes.max(1));
            self.take(part)?;
            left -= part;
        }
        Ok(())
    }

    /// Checks that all bytes have been read, and that the hashes match the index.
    pub(super) fn end(&mut self) -> Result<()> {
        let begin = self.offset();
        if self.input.fill(&mut [0; 1])? != 0 || begin != self.declared {
            let error = Error::malformed("the decompressed length of a shard differs from the index");
            let error = error.file(self.input.file_name());
            return Err(error.expected(self.declared).found(format!("{begin} or more")));
        }
        match self.verifier.take() {
            Some(verifier) => verifier.finish().map_err(|error| error.file(self.input.file_name())),
            None => Ok(()),
        }
    }
}
