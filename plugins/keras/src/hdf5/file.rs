//! Opens HDF5 files and limits reads from them. The length of the file limits each read. A budget
//! limits the total number of bytes read, so that overlapping structures cannot cause more work
//! than the file's length justifies. Bytes that are copied out of a structure, such as a string in
//! a heap, count against the budget again.
//!
//! ```text
//! 0, 512, 1024, 2048, ...   89 "HDF" 0d 0a 1a 0a: the superblock; all addresses are relative to it
//! ```

use super::heaps::Heaps;
use hdf5_reader::error::Error as Fault;
use hdf5_reader::io::Cursor;
use hdf5_reader::storage::{Storage, StorageBuffer};
use hdf5_reader::superblock::Superblock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tensorferry_sdk::{Error, Limits, Result, Source};
use tensorferry_zip::Extent;

/// The signature at the start of a superblock.
pub(crate) const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";

/// Maximum length of a structure in bytes. Real structures are a few kilobytes long.
const MAX_STRUCTURE_BYTES: u64 = 64 << 20;
/// Maximum number of bytes to read, in addition to eight times the file's length.
const MAX_EXTRA_READS: u64 = 64 << 20;
/// Memory overhead of a string or path, in bytes.
const OVERHEAD: u64 = 64;

/// A budget for the memory that the paths and strings of all files of a model use.
pub(crate) struct TextBudget {
    max: u64,
    bytes: AtomicU64,
}

impl TextBudget {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { max: limits.header_bytes, bytes: AtomicU64::new(0) }
    }

    /// Counts a string of `len` bytes against the budget. Fails if the budget is exceeded.
    pub(crate) fn add(&self, len: usize) -> Result<()> {
        let len = OVERHEAD.saturating_add(len as u64);
        if self.bytes.fetch_add(len, Ordering::Relaxed).saturating_add(len) <= self.max {
            return Ok(());
        }
        Err(Error::limit("the paths and strings in the file are too long to keep in memory")
            .expected(format!("at most {} bytes", self.max))
            .hint("pass --limit header_bytes=N to raise the limit"))
    }
}

/// An HDF5 file. It may be a range of a larger file, such as a member of an archive.
pub(crate) struct File<'s> {
    storage: ExtentStorage<'s>,
    heaps: Mutex<Heaps>,
    pub(crate) held: &'s TextBudget,
    pub(crate) offset_size: u8,
    pub(crate) length_size: u8,
    /// Address of the root group's object header.
    pub(crate) root: u64,
}

impl<'s> File<'s> {
    /// Finds the superblock and reads it.
    pub(crate) fn open(
        source: &'s dyn Source,
        extent: Extent,
        held: &'s TextBudget,
        limits: &Limits,
    ) -> Result<Self> {
        let name = source.name(extent.file);
        let start = find_signature(source, extent)?.ok_or_else(|| {
            Error::malformed("not an HDF5 file: no signature at 0, 512, 1024, ...")
                .file(name)
                .offset(extent.offset)
        })?;
        let storage = ExtentStorage::new(source, extent.after(start), limits);
        let superblock = Superblock::parse_from_storage(&storage)
            .map_err(|fault| storage.convert_fault(&fault, "the superblock", 0))?;
        let Superblock { offset_size, length_size, .. } = superblock;
        // Some writers measure this length from the start of the file, while other writers measure
        // it from the superblock.
        if superblock.eof_address > extent.len {
            return Err(Error::malformed("the file is shorter than the superblock declares")
                .file(name)
                .offset(extent.offset + start)
                .expected(format!("{} bytes", superblock.eof_address))
                .found(format!("{} bytes", extent.len)));
        }
        let root = match superblock.root_object_header_address {
            Some(root) => Ok(root),
            None => old_root(&storage, superblock.version, offset_size, length_size),
        };
        let root = root.map_err(|fault| storage.convert_fault(&fault, "the superblock", 0))?;
        Ok(Self { storage, heaps: Mutex::default(), held, offset_size, length_size, root })
    }

    /// Reads the bytes at an address.
    pub(crate) fn bytes(&self, address: u64, len: u64, what: &str) -> Result<Vec<u8>> {
        self.storage.read(address, len).map_err(|error| error.context(what))
    }

    /// Counts bytes that are copied out of a structure against the read budget.
    pub(crate) fn count_copied(&self, address: u64, len: usize) -> Result<()> {
        self.storage.spend(address, len as u64)
    }

    /// Passes the first `len` bytes of the object with this index to `each`. The object is in the
    /// global heap at `address`.
    pub(crate) fn heap_object(
        &self,
        address: u64,
        index: u32,
        len: u32,
        each: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut heaps = self.heaps.lock().unwrap_or_else(PoisonError::into_inner);
        let objects = heaps.objects(&self.storage, address, self.offset_size, self.length_size);
        let objects = self.parsed(objects, "a global heap", address)?;
        let object = u16::try_from(index).ok().and_then(|index| objects.get(&index));
        let bytes = object.and_then(|object| object.get(..usize::try_from(len).ok()?));
        let bytes = bytes.ok_or_else(|| {
            let error = Error::malformed("a string is missing from its global heap");
            self.at(error.expected(format!("{len} bytes, number {index}")), address)
        })?;
        self.count_copied(address, bytes.len())?;
        each(bytes)
    }

    /// Returns the HDF5 address of an extent in this file.
    pub(crate) fn address(&self, extent: Extent) -> u64 {
        extent.offset.saturating_sub(self.storage.extent.offset)
    }

    /// Returns the extent of the bytes at an HDF5 address, after checking that they exist.
    pub(crate) fn extent(&self, address: u64, len: u64) -> Result<Extent> {
        let whole = self.storage.extent;
        let start = whole.offset.checked_add(address);
        let start = start.ok_or_else(|| Error::malformed("an address does not fit in 64 bits"))?;
        whole.part(self.storage.source, start, len)
    }

    /// Converts an error that `hdf5-reader` returned.
    pub(crate) fn parsed<T>(&self, parsed: Result<T, Fault>, what: &str, address: u64) -> Result<T> {
        parsed.map_err(|fault| self.storage.convert_fault(&fault, what, address))
    }

    /// Returns the bytes of the file as the `Storage` type that `hdf5-reader` reads.
    pub(crate) fn storage(&self) -> &dyn Storage {
        &self.storage
    }

    /// Returns the length of the file in bytes, measured from the superblock.
    pub(crate) fn len(&self) -> u64 {
        self.storage.extent.len
    }

    /// Returns whether an address is the value that means "undefined".
    pub(crate) fn is_undefined(&self, address: u64) -> bool {
        // For chunks in pages that were never written, `hdf5-reader` returns `u64::MAX`, regardless
        // of the width of addresses.
        address == u64::MAX || Cursor::is_undefined_offset(address, self.offset_size)
    }

    /// Adds the file name and an address in the file to an error.
    pub(crate) fn at(&self, error: Error, address: u64) -> Error {
        self.storage.at(error, address)
    }
}

/// Returns the address of the root group's object header in superblocks of versions 0 and 1. Such a
/// superblock ends with a symbol table entry, which starts with the offset of a name. In real
/// files, this offset has the width of a length, but the specification and `hdf5-reader` give it
/// the width of an address.
fn old_root(storage: &dyn Storage, version: u8, offset_size: u8, length_size: u8) -> Result<u64, Fault> {
    let before = if version == 0 { 24 } else { 28 } + 4 * usize::from(offset_size);
    let entry = usize::from(length_size) + usize::from(offset_size);
    let bytes = storage.read_range(before as u64, entry)?;
    let mut cursor = Cursor::new(bytes.as_ref());
    cursor.read_length(length_size)?;
    cursor.read_offset(offset_size)
}

/// Returns the offset of the superblock in an extent, or `None` if there is no superblock.
pub(crate) fn find_signature(source: &dyn Source, extent: Extent) -> Result<Option<u64>> {
    let mut at = 0_u64;
    while at.checked_add(8).is_some_and(|end| end <= extent.len) {
        let mut start = [0; 8];
        if extent.after(at).read_start(source, &mut start)? == SIGNATURE {
            return Ok(Some(at));
        }
        at = if at == 0 { 512 } else { at.saturating_mul(2) };
    }
    Ok(None)
}

/// The bytes of an HDF5 file, starting at its superblock.
struct ExtentStorage<'s> {
    source: &'s dyn Source,
    extent: Extent,
    most_at_once: u64,
    /// Number of bytes that may still be read.
    left: AtomicU64,
    /// The error from a failed read. It is stored here because the error type of `hdf5-reader`
    /// cannot contain it.
    failure: Mutex<Option<Error>>,
}

impl<'s> ExtentStorage<'s> {
    fn new(source: &'s dyn Source, extent: Extent, limits: &Limits) -> Self {
        let left = limits.header_bytes.min(MAX_EXTRA_READS).saturating_add(extent.len.saturating_mul(8));
        Self {
            source,
            extent,
            most_at_once: limits.header_bytes.min(MAX_STRUCTURE_BYTES),
            left: AtomicU64::new(left),
            failure: Mutex::new(None),
        }
    }

    fn at(&self, error: Error, address: u64) -> Error {
        error.file(self.source.name(self.extent.file)).offset(self.extent.offset.saturating_add(address))
    }

    fn read(&self, address: u64, len: u64) -> Result<Vec<u8>> {
        let end = address.checked_add(len).filter(|&end| end <= self.extent.len);
        if end.is_none() {
            let there = self.extent.len.saturating_sub(address);
            let error = Error::malformed("it extends beyond the end of the file");
            return Err(self
                .at(error, address)
                .expected(format!("{len} bytes"))
                .found(format!("{there} bytes")));
        }
        self.spend(address, len)?;
        if len > self.most_at_once {
            let error = Error::limit("an HDF5 structure is too large to hold in memory")
                .expected(format!("at most {} bytes", self.most_at_once));
            return Err(self.at(error.found(len), address));
        }
        // The length is at most the length of the file, and at most 64 MiB.
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        self.source.read_at(self.extent.file, self.extent.offset + address, &mut bytes)?;
        Ok(bytes)
    }

    fn spend(&self, address: u64, len: u64) -> Result<()> {
        let is_spent = |left: u64| left.checked_sub(len);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_spent).is_ok() {
            return Ok(());
        }
        let error = Error::limit("the file's structures refer to the same bytes too many times").expected(
            "reads of at most 64 MiB (or the limit header_bytes, if lower) plus eight times the file's length",
        );
        Err(self.at(error.found(format!("{len} bytes more")), address))
    }

    /// Converts an error from `hdf5-reader`. If a failed read caused the error, returns the error
    /// from the read.
    fn convert_fault(&self, fault: &Fault, what: &str, address: u64) -> Error {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(error) = failure {
            return error.context(what);
        }
        let text = format!("{what}: {fault}");
        let error = match fault {
            Fault::ResourceLimit(_) => Error::limit(text),
            Fault::UnsupportedSuperblockVersion(_)
            | Fault::UnsupportedOffsetSize(_)
            | Fault::UnsupportedLengthSize(_)
            | Fault::UnsupportedLayoutVersion(_)
            | Fault::UnsupportedLayoutClass(_)
            | Fault::UnsupportedFilter(_)
            | Fault::UnsupportedEncoding(_) => Error::unsupported(text),
            _ => Error::malformed(text),
        };
        self.at(error, address)
    }
}

impl Storage for ExtentStorage<'_> {
    fn len(&self) -> u64 {
        self.extent.len
    }

    fn read_range(&self, offset: u64, len: usize) -> Result<StorageBuffer, Fault> {
        self.read(offset, len as u64).map(StorageBuffer::from_vec).map_err(|error| {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(error);
            Fault::OffsetOutOfBounds(offset)
        })
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use hdf5_reader::storage::BytesStorage;

    #[test]
    fn the_old_superblock_ends_with_a_name_and_the_root() {
        for (version, before) in [(0, 24), (1, 28)] {
            for (offset, length) in [(4, 4), (4, 8), (8, 4), (8, 8)] {
                let mut bytes = vec![0; before + 4 * usize::from(offset) + usize::from(length)];
                bytes.extend_from_slice(&0x1234_u64.to_le_bytes()[..offset.into()]);
                let root = old_root(&BytesStorage::new(bytes), version, offset, length).unwrap();
                assert_eq!(root, 0x1234, "version {version}, {offset} and {length} bytes");
            }
        }
    }
}
