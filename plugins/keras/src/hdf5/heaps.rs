//! Caches global heaps, which contain strings of variable length. Caching a few heaps is enough,
//! because consecutive strings are usually in the same heap. Often, a single heap also contains the
//! strings of all attributes.

use hdf5_reader::error::Error as Fault;
use hdf5_reader::global_heap::GlobalHeapCollection;
use hdf5_reader::storage::Storage;
use std::collections::HashMap;

/// Maximum size of the cache in bytes. Most heaps are 4 KiB in size.
const MAX_KEPT: usize = 16 << 20;
/// Memory overhead of an object in a heap, in bytes.
const OVERHEAD: usize = 64;

/// The objects in a heap, by index.
type Objects = HashMap<u16, Vec<u8>>;

/// The cached heaps, by address.
#[derive(Default)]
pub(super) struct Heaps {
    kept: HashMap<u64, Objects>,
    bytes: usize,
}

impl Heaps {
    /// Returns the objects in the heap at an address.
    pub(super) fn objects(
        &mut self,
        storage: &dyn Storage,
        address: u64,
        offset_size: u8,
        length_size: u8,
    ) -> Result<&Objects, Fault> {
        if !self.kept.contains_key(&address) {
            let heap = GlobalHeapCollection::parse_at_storage(storage, address, offset_size, length_size)?;
            let mut objects = Objects::new();
            for object in heap.objects {
                objects.entry(object.index).or_insert(object.data);
            }
            let bytes = objects.values().map(|object| object.len() + OVERHEAD).sum();
            if self.bytes.saturating_add(bytes) > MAX_KEPT {
                self.kept.clear();
                self.bytes = 0;
            }
            self.bytes = self.bytes.saturating_add(bytes);
            self.kept.insert(address, objects);
        }
        Ok(&self.kept[&address])
    }
}
