//! Adds computed storages to a catalog. A computed storage is not stored anywhere. The host
//! computes its bytes from other storages whenever they are read.

use crate::{
    ByteOrder, Catalog, Compute, ComputedStorage, Error, Result, Storage, StorageId, StorageLocation,
};
use std::sync::Arc;

impl Catalog {
    /// Adds a little-endian storage whose `len` bytes `compute` computes, and returns its id.
    ///
    /// # Errors
    /// Returns a plugin error if an input does not exist or is itself computed, or a limit error if
    /// there are too many storages.
    pub fn add_computed(&mut self, compute: Arc<dyn Compute>, len: u64) -> Result<StorageId> {
        for input in compute.inputs() {
            match self.storage(*input) {
                None => return Err(Error::plugin(format!("no storage {}", input.0))),
                Some(Storage { location: StorageLocation::Computed(_), .. }) => {
                    return Err(Error::plugin("a computed storage reads another computed storage"));
                }
                Some(_) => {}
            }
        }
        let id = u32::try_from(self.storages.len()).ok();
        let id = id.filter(|&id| u64::from(id) < self.limits.entries);
        let id = id.ok_or_else(|| Error::limit("too many storages"))?;
        let place = StorageLocation::Computed(ComputedStorage(compute));
        self.storages.push(Storage { location: place, len, byte_order: ByteOrder::Little, digest: None });
        Ok(StorageId(id))
    }
}
