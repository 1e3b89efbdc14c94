//! Output files: staged local files, and uploads to a store.

use crate::open_files::{LocalFile, PooledFile};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use tensorferry_core::context::remote::RemoteUpload;
use tensorferry_sdk::{Error, Result};

/// An output file that is being written. Several threads may write to it, at any position.
pub enum OutputBytes {
    Local(File),
    /// One of many local files. Only some of these files are open at any one time.
    Pooled(PooledFile),
    /// An object that is uploaded while it is written.
    Remote(Arc<dyn RemoteUpload>),
}

/// The properties of an output file that determine how the file is written.
#[derive(Debug, Clone, Default)]
pub struct FileShape {
    /// The length of the file in bytes; `None` if the length is not known yet.
    pub len: Option<u64>,
    /// Ranges that are written after all other bytes.
    pub late: Vec<Range<u64>>,
    /// Whether the file is read back before it is complete, or its name is not known at the start.
    /// Such a file cannot be uploaded while it is written.
    pub is_kept: bool,
}

impl FileShape {
    /// Returns the shape of a file of this length whose bytes are each written once.
    #[must_use]
    pub fn of_len(len: u64) -> Self {
        Self { len: Some(len), ..Self::default() }
    }
}

impl OutputBytes {
    /// Returns the local file, which is reopened if necessary, or `None` for an upload.
    pub fn local(&self) -> Result<Option<LocalFile<'_>>> {
        match self {
            Self::Local(file) => Ok(Some(LocalFile::Own(file))),
            Self::Pooled(file) => file.open().map(Some),
            Self::Remote(_) => Ok(None),
        }
    }

    /// Writes bytes at an offset. The caller writes each byte only once.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        match self {
            Self::Local(file) => Ok(file.write_all_at(bytes, offset)?),
            Self::Pooled(file) => Ok(file.open()?.write_all_at(bytes, offset)?),
            Self::Remote(upload) => upload.write_at(offset, bytes),
        }
    }

    /// Writes bytes of a [late](FileShape::late) range.
    pub fn write_late_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        match self {
            Self::Local(file) => Ok(file.write_all_at(bytes, offset)?),
            Self::Pooled(file) => Ok(file.open()?.write_all_at(bytes, offset)?),
            Self::Remote(upload) => upload.write_late(offset, bytes),
        }
    }

    /// Reads bytes back. Returns an error for an upload, unless the file is
    /// [kept](FileShape::is_kept).
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        match self {
            Self::Local(file) => Ok(file.read_exact_at(buffer, offset)?),
            Self::Pooled(file) => Ok(file.open()?.read_exact_at(buffer, offset)?),
            Self::Remote(_) => Err(Error::unsupported("uploaded bytes cannot be read back")),
        }
    }

    /// Sets the final length of the file.
    pub fn set_len(&self, len: u64) -> Result<()> {
        match self {
            Self::Local(file) => Ok(file.set_len(len)?),
            Self::Pooled(file) => Ok(file.open()?.set_len(len)?),
            Self::Remote(upload) => upload.ends_at(len),
        }
    }

    /// Declares the final length of an upload. Does nothing for a local file.
    pub fn ends_at(&self, len: u64) -> Result<()> {
        match self {
            Self::Local(_) | Self::Pooled(_) => Ok(()),
            Self::Remote(upload) => upload.ends_at(len),
        }
    }
}
