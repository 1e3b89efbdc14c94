//! The location of a value. The value is in a range of a file in the checkpoint's folder, or in
//! memory because another value contains its bytes.

use std::ops::Range;
use std::sync::Arc;
use tensorferry_sdk::{Error, FileId, Limits, Result, Source, check_name};

pub(crate) const MANIFEST: &str = "manifest.ocdbt";
/// Maximum length of a path on Linux, in bytes.
const MAX_PATH: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Span {
    File {
        file: FileId,
        offset: u64,
        len: u64,
    },
    /// A range of bytes in memory. The spans of a shard's parts share these bytes, because a shard
    /// may have thousands of parts.
    Inline {
        bytes: Arc<[u8]>,
        range: Range<usize>,
    },
}

impl Span {
    /// Creates a span from bytes that a node contains.
    pub(crate) fn inline(bytes: &[u8]) -> Self {
        Self::Inline { bytes: bytes.into(), range: 0..bytes.len() }
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::File { len, .. } => *len,
            Self::Inline { range, .. } => range.len() as u64,
        }
    }

    /// Fills the buffer with the bytes at offset `at` of the span. The whole range must be within
    /// the span.
    pub(crate) fn read_at(&self, source: &dyn Source, at: u64, buffer: &mut [u8]) -> Result<()> {
        match self {
            Self::File { file, offset, .. } => source.read_at(*file, offset.saturating_add(at), buffer),
            Self::Inline { .. } => {
                let held = self.inline_bytes();
                let from = usize::try_from(at).ok().and_then(|at| held.get(at..)?.get(..buffer.len()));
                buffer.copy_from_slice(from.ok_or_else(|| Error::plugin("read past the end of a value"))?);
                Ok(())
            }
        }
    }

    /// Reads all bytes of the span. Returns an error if their number exceeds the limits.
    pub(crate) fn bytes(&self, source: &dyn Source, limits: &Limits) -> Result<Vec<u8>> {
        match self {
            Self::File { file, offset, len } => source.read_vec(*file, *offset, *len, limits),
            Self::Inline { .. } => Ok(self.inline_bytes().to_vec()),
        }
    }

    /// Returns the bytes of the span if they are in memory. For a file range, the result is empty.
    pub(crate) fn inline_bytes(&self) -> &[u8] {
        match self {
            Self::File { .. } => &[],
            Self::Inline { bytes, range } => bytes.get(range.clone()).unwrap_or_default(),
        }
    }

    /// Returns a part of the span, or `None` if the part extends beyond the span.
    pub(crate) fn part(&self, at: u64, part_len: u64) -> Option<Self> {
        if at.checked_add(part_len)? > self.len() {
            return None;
        }
        Some(match self {
            Self::File { file, offset, .. } => {
                Self::File { file: *file, offset: offset.checked_add(at)?, len: part_len }
            }
            Self::Inline { bytes, range } => {
                let start = range.start + usize::try_from(at).ok()?;
                let end = start + usize::try_from(part_len).ok()?;
                Self::Inline { bytes: bytes.clone(), range: start..end }
            }
        })
    }
}

/// Checks that a path from a file does not leave the checkpoint's folder.
pub(crate) fn check_path(path: &str) -> Result<()> {
    if path.len() > MAX_PATH || path.contains(['\\', '\0']) {
        let error = Error::malformed("a name is not a path in the checkpoint's folder");
        return Err(error.found(format!("{path:?}")));
    }
    check_name(path).map_err(|error| Error::malformed(error.message()).found(format!("{path:?}")))
}

/// Opens a file whose path comes from the manifest or a node.
pub(crate) fn open_in(source: &dyn Source, folder: &str, path: &str) -> Result<FileId> {
    check_path(path).map_err(|error| error.file(format!("{folder}{MANIFEST}")))?;
    source.open(&format!("{folder}{path}"))
}
