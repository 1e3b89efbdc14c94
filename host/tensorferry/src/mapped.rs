//! Bytes of a file that are mapped into memory.
#![expect(unsafe_code, reason = "a mapping is as sound as the file behind it")]

use std::fs::File;
use std::ops::{Deref, DerefMut};
use tensorferry_sdk::{Error, Result};

/// Bytes of a tensor in its file; see [`Tensor::map`](crate::Tensor::map). They stay mapped when the
/// tensor and its model are gone.
#[derive(Debug)]
pub struct Mapped(memmap2::Mmap);

impl Mapped {
    /// Maps `len` bytes of `file` from `offset` on.
    ///
    /// # Safety
    /// The file must not change or shrink while the mapping lives.
    pub(crate) unsafe fn new(file: &File, offset: u64, len: u64) -> Result<Self> {
        let len = length(len)?;
        // SAFETY: the caller's promise.
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

/// Bytes of a tensor in its file, to be written to without a change of the file; see
/// [`Tensor::map_private`](crate::Tensor::map_private). They stay mapped when the tensor and its model are gone.
#[derive(Debug)]
pub struct MappedPrivate(memmap2::MmapMut);

impl MappedPrivate {
    /// Maps `len` bytes of `file` from `offset` on.
    ///
    /// # Safety
    /// The file must not change or shrink while the mapping lives.
    pub(crate) unsafe fn new(file: &File, offset: u64, len: u64) -> Result<Self> {
        let len = length(len)?;
        // SAFETY: the caller's promise.
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
    usize::try_from(len).map_err(|_| Error::limit("too long to be mapped").found(len))
}
