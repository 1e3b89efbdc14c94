//! Positional access to a file of a source, for the `parquet` crate.

use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use tensorferry_sdk::{Error, FileId, Result, Source, check_range};

/// A file of a source. Clones refer to the same file.
#[derive(Clone)]
pub(crate) struct SourceFile {
    source: Arc<dyn Source>,
    file: FileId,
}

impl SourceFile {
    pub(super) fn open(source: &Arc<dyn Source>, name: &str) -> Result<Self> {
        Ok(Self { file: source.open(name)?, source: source.clone() })
    }

    pub(super) fn name(&self) -> &str {
        self.source.name(self.file)
    }

    pub(super) fn len(&self) -> u64 {
        self.source.len(self.file)
    }

    /// Reads `len` bytes at `offset`, or returns an error if the file does not contain them.
    pub(super) fn read(&self, offset: u64, len: u64) -> Result<Bytes> {
        check_range(self.name(), self.len(), offset, len)?;
        let len = usize::try_from(len).map_err(|_| Error::limit("too long for the address space"))?;
        let mut bytes = vec![0; len];
        self.source.read_at(self.file, offset, &mut bytes)?;
        Ok(bytes.into())
    }

    /// Fills a buffer with the bytes at `offset`, or returns an error if the file does not contain
    /// them.
    pub(super) fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        check_range(self.name(), self.len(), offset, bytes.len() as u64)?;
        self.source.read_at(self.file, offset, bytes)
    }
}

impl fmt::Debug for SourceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SourceFile").field(&self.name()).finish()
    }
}
