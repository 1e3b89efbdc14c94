//! Bytes of an output's file on their way: into a staged file of this machine, or to a place beyond a network.

use crate::open_files::{Handle, PooledFile};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use tensorferry_core::context::remote::RemoteUpload;
use tensorferry_sdk::{Error, Result};

/// A file of the output that is being written, at any position and by several threads.
pub enum OutputBytes {
    /// A file of this machine.
    Local(File),
    /// One of many files of this machine, which are not all open at once.
    Pooled(PooledFile),
    /// An object that is sent as it comes.
    Remote(Arc<dyn RemoteUpload>),
}

/// How a file will be written.
#[derive(Debug, Clone, Default)]
pub struct FileShape {
    /// Its length, if that is known.
    pub len: Option<u64>,
    /// Ranges whose bytes are known when all others are.
    pub late: Vec<Range<u64>>,
    /// Whether bytes of it are read again before it is whole, or its name is not known yet: then it cannot be sent as
    /// it comes.
    pub is_kept: bool,
}

impl FileShape {
    /// Of a file of this length that is written once.
    #[must_use]
    pub fn of_len(len: u64) -> Self {
        Self { len: Some(len), ..Self::default() }
    }
}

impl OutputBytes {
    /// The file, if it is one of this machine.
    ///
    /// # Errors
    /// I/o, if it cannot be opened again.
    pub fn local(&self) -> Result<Option<Handle<'_>>> {
        match self {
            Self::Local(file) => Ok(Some(Handle::Own(file))),
            Self::Pooled(file) => file.open().map(Some),
            Self::Remote(_) => Ok(None),
        }
    }

    /// Writes bytes to their place; each comes once.
    ///
    /// # Errors
    /// I/o; what the place beyond the network says.
    pub fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        match self {
            Self::Local(file) => Ok(file.write_all_at(bytes, offset)?),
            Self::Pooled(file) => Ok(file.open()?.write_all_at(bytes, offset)?),
            Self::Remote(upload) => upload.write_at(offset, bytes),
        }
    }

    /// Writes bytes of a range that is known late.
    pub fn write_late_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        match self {
            Self::Local(file) => Ok(file.write_all_at(bytes, offset)?),
            Self::Pooled(file) => Ok(file.open()?.write_all_at(bytes, offset)?),
            Self::Remote(upload) => upload.write_late(offset, bytes),
        }
    }

    /// Reads bytes that were written.
    ///
    /// # Errors
    /// I/o; unsupported, of bytes that were sent: such a file is [kept](FileShape::is_kept).
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        match self {
            Self::Local(file) => Ok(file.read_exact_at(buffer, offset)?),
            Self::Pooled(file) => Ok(file.open()?.read_exact_at(buffer, offset)?),
            Self::Remote(_) => Err(Error::unsupported("bytes that were sent are not read again")),
        }
    }

    /// Makes a file as long as it will be.
    ///
    /// # Errors
    /// As [`write_all_at`](Self::write_all_at).
    pub fn set_len(&self, len: u64) -> Result<()> {
        match self {
            Self::Local(file) => Ok(file.set_len(len)?),
            Self::Pooled(file) => Ok(file.open()?.set_len(len)?),
            Self::Remote(upload) => upload.ends_at(len),
        }
    }

    /// Says that no byte comes behind this length.
    ///
    /// # Errors
    /// As [`write_all_at`](Self::write_all_at).
    pub fn ends_at(&self, len: u64) -> Result<()> {
        match self {
            Self::Local(_) | Self::Pooled(_) => Ok(()),
            Self::Remote(upload) => upload.ends_at(len),
        }
    }
}
