//! A span is where a value lies: a stretch of a file of the checkpoint's folder, or bytes that were found in another value.

use std::ops::Range;
use std::sync::Arc;
use tensorferry_sdk::{Error, FileId, Limits, Result, Source, check_name};

/// The manifest's name.
pub(crate) const MANIFEST: &str = "manifest.ocdbt";
/// Bytes of a path: Linux opens none that is longer.
const MOST_PATH: usize = 4096;

/// Where a value lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Span {
    File {
        file: FileId,
        offset: u64,
        len: u64,
    },
    /// A range of bytes that its parts share: a shard may have thousands of them.
    Inline {
        bytes: Arc<[u8]>,
        range: Range<usize>,
    },
}

impl Span {
    /// Bytes that were found in a node.
    pub(crate) fn inline(bytes: &[u8]) -> Self {
        Self::Inline { bytes: bytes.into(), range: 0..bytes.len() }
    }

    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::File { len, .. } => *len,
            Self::Inline { range, .. } => range.len() as u64,
        }
    }

    /// Fills a buffer with the bytes from `at` on, which are there.
    pub(crate) fn read_at(&self, source: &dyn Source, at: u64, buffer: &mut [u8]) -> Result<()> {
        match self {
            Self::File { file, offset, .. } => source.read_at(*file, offset.saturating_add(at), buffer),
            Self::Inline { .. } => {
                let held = self.held();
                let from = usize::try_from(at).ok().and_then(|at| held.get(at..)?.get(..buffer.len()));
                buffer.copy_from_slice(from.ok_or_else(|| Error::plugin("a read past a value's end"))?);
                Ok(())
            }
        }
    }

    /// All bytes, once it is known that they may be held.
    pub(crate) fn bytes(&self, source: &dyn Source, limits: &Limits) -> Result<Vec<u8>> {
        match self {
            Self::File { file, offset, len } => source.read_vec(*file, *offset, *len, limits),
            Self::Inline { .. } => Ok(self.held().to_vec()),
        }
    }

    /// The bytes that are in memory already; none of a file's.
    pub(crate) fn held(&self) -> &[u8] {
        match self {
            Self::File { .. } => &[],
            Self::Inline { bytes, range } => bytes.get(range.clone()).unwrap_or_default(),
        }
    }

    /// A part of it; `None`, where it does not have one.
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

/// That a path from a file stays in its folder.
pub(crate) fn check_path(path: &str) -> Result<()> {
    if path.len() > MOST_PATH || path.contains(['\\', '\0']) {
        let error = Error::malformed("a name that is no path in the checkpoint's folder");
        return Err(error.found(format!("{path:?}")));
    }
    check_name(path).map_err(|error| Error::malformed(error.message()).found(format!("{path:?}")))
}

/// Opens a file of the folder that a file names.
pub(crate) fn open_in(source: &dyn Source, folder: &str, path: &str) -> Result<FileId> {
    check_path(path).map_err(|error| error.file(format!("{folder}{MANIFEST}")))?;
    source.open(&format!("{folder}{path}"))
}
