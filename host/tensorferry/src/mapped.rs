//! Bytes of a file that are mapped into memory.
#![expect(unsafe_code, reason = "a mapping is only as sound as the file behind it")]

use std::fs::File;
use std::ops::{Deref, DerefMut};
use tensorferry_sdk::{Error, Result};

/// A read-only mapping of a tensor's bytes in its file, as [`Tensor::map`](crate::Tensor::map)
/// returns it. The mapping remains valid after the tensor and its model are dropped.
#[derive(Debug)]
pub struct Mapped(memmap2::Mmap);

impl Mapped {
    /// Maps `len` bytes of `file`, starting at `offset`.
    ///
    /// # Safety
    /// The file must not change or shrink during the lifetime of the mapping.
    pub(crate) unsafe fn new(file: &File, offset: u64, len: u64) -> Result<Self> {
        let len = length(len)?;
        // SAFETY: the caller guarantees that the file does not change.
        let map = unsafe { memmap2::MmapOptions::new().offset(offset).len(len).map(file) };
        map.map(Self).map_err(Error::from)
    }
}

impl Deref for Mapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// A private mapping of a tensor's bytes in its file, as
/// [`Tensor::map_private`](crate::Tensor::map_private) returns it. Writes to the mapping do not
/// change the file. The mapping remains valid after the tensor and its model are dropped.
#[derive(Debug)]
pub struct MappedPrivate(memmap2::MmapMut);

impl MappedPrivate {
    /// Maps `len` bytes of `file`, starting at `offset`.
    ///
    /// # Safety
    /// The file must not change or shrink during the lifetime of the mapping.
    pub(crate) unsafe fn new(file: &File, offset: u64, len: u64) -> Result<Self> {
        let len = length(len)?;
        // SAFETY: the caller guarantees that the file does not change.
        let map = unsafe { memmap2::MmapOptions::new().offset(offset).len(len).map_copy(file) };
        map.map(Self).map_err(Error::from)
    }
}

impl Deref for MappedPrivate {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for MappedPrivate {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

fn length(len: u64) -> Result<usize> {
    usize::try_from(len).map_err(|_| Error::limit("too long to map into memory").found(len))
}
