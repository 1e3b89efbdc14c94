//! The bytes of a shard that is compressed as a whole, in order.

use crate::codec::Codec;
use crate::hash::Verifier;
use std::sync::Arc;
use tensorferry_row_text::{self as row_text, SourceRead, damaged, most_expanded};
use tensorferry_sdk::{Error, FileId, Limits, Result, Source};

/// Bytes that are gone past at once.
const CHUNK: u64 = 64 << 10;
/// What errors call the file.
const NOUN: &str = "shard";

/// The bytes of a compressed shard.
pub(super) struct Decompressed {
    input: row_text::Decompressed,
    /// What it comes to, as the index says.
    said: u64,
    header_bytes: u64,
    verifier: Option<Verifier>,
}

impl Decompressed {
    pub(super) fn new(
        source: &Arc<dyn Source>,
        file: FileId,
        codec: Codec,
        said: u64,
        verifier: Option<Verifier>,
        limits: &Limits,
    ) -> Result<Self> {
        let (name, len, header_bytes) = (source.name(file), source.len(file), limits.header_bytes);
        let most = said.min(most_expanded(len, limits));
        let reader = codec.decompressed(SourceRead::new(source, file, 0, len), len, most, header_bytes);
        let reader = reader.map_err(|error| damaged(NOUN, error).file(name))?;
        let input = row_text::Decompressed::new(name, NOUN, reader, len, limits);
        Ok(Self { input, said, header_bytes, verifier })
    }

    /// Where the next byte lies, once decompressed.
    pub(super) fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// The next bytes.
    pub(super) fn take(&mut self, len: u64) -> Result<&[u8]> {
        self.input.check_held(len).map_err(|error| error.offset(self.input.offset()))?;
        let found = self.input.advance(len)?;
        if found < len {
            return Err(self.input.cut(len - found));
        }
        if let Some(verifier) = &mut self.verifier {
            verifier.update(self.input.window());
        }
        Ok(self.input.window())
    }

    /// Goes past bytes.
    pub(super) fn skip(&mut self, len: u64) -> Result<()> {
        let mut left = len;
        while left > 0 {
            let part = left.min(CHUNK).min(self.header_bytes.max(1));
            self.take(part)?;
            left -= part;
        }
        Ok(())
    }

    /// Checks that nothing is left, and that the hashes are what the index says.
    pub(super) fn end(&mut self) -> Result<()> {
        let begin = self.offset();
        if self.input.fill(&mut [0; 1])? != 0 || begin != self.said {
            let error = Error::malformed("a shard is not as long as the index says, once decompressed");
            let error = error.file(self.input.file_name());
            return Err(error.expected(self.said).found(format!("{begin} or more")));
        }
        match self.verifier.take() {
            Some(verifier) => verifier.finish().map_err(|error| error.file(self.input.file_name())),
            None => Ok(()),
        }
    }
}
