//! Reads whole tensors, and compares their storages with the checksums stored in the input.

use super::{CHUNK, Model, read_side_by_side};
use rayon::prelude::*;
use std::sync::PoisonError;
use tensorferry_core::context::windows::WINDOW_BYTES;
use tensorferry_sdk::{
    ByteOrder, CatalogView, Checksum, Context, Data, DigestAlgorithm, Result, StorageId, StorageLocation,
    TensorId, TensorPart,
};
use tensorferry_tensors::logical::Logical;

impl Model {
    pub(super) fn read_whole(&self, logical: &Logical<'_>, id: TensorId, buffer: &mut [u8]) -> Result<()> {
        let stored = logical.stored();
        let mut to_compare = self.not_compared(logical, id)?;
        match self.opened.catalog.tensors()[id.0 as usize].data {
            Data::Blocks(_) | Data::Grid(_) => logical.read_part(&TensorPart::whole(id), buffer)?,
            Data::Whole { storage, offset: 0 } if self.fills_as_it_lies(storage, buffer, id) => {
                match stored.storage(storage)?.digest.as_ref().filter(|_| to_compare == [storage]) {
                    None => read_side_by_side(logical, id, 0, buffer)?,
                    Some(expected) => {
                        let found = read_summed(logical, id, expected.algorithm, buffer)?.digest();
                        if found != *expected {
                            return Err(stored.mismatch(storage, expected, &found));
                        }
                        self.has_compared(std::mem::take(&mut to_compare));
                    }
                }
            }
            _ => read_side_by_side(logical, id, 0, buffer)?,
        }
        // If the tensor covers only a part of a storage, or the storage's byte order differs, the
        // storage is read again to compute its checksum.
        if !to_compare.is_empty() {
            stored.check_digests(&to_compare)?;
            self.has_compared(to_compare);
        }
        Ok(())
    }

    /// Compares the storages behind a tensor with their checksums, unless this has already been
    /// done. All work is done in the calling thread.
    pub(super) fn compare(&self, logical: &Logical<'_>, id: TensorId) -> Result<()> {
        for storage in self.not_compared(logical, id)? {
            logical.stored().check_digests(&[storage])?;
            self.has_compared(vec![storage]);
        }
        Ok(())
    }

    /// Returns the storages behind a tensor that have a checksum and have not been compared yet.
    /// Excludes encoded storages, because they are compared when they are decoded.
    fn not_compared(&self, logical: &Logical<'_>, id: TensorId) -> Result<Vec<StorageId>> {
        let Some(compared) = &self.opened.compared else { return Ok(Vec::new()) };
        let has_digest = |id: &StorageId| {
            let storage = self.opened.catalog.storage(*id);
            storage
                .is_some_and(|s| s.digest.is_some() && !matches!(s.location, StorageLocation::Encoded { .. }))
        };
        let mut storages: Vec<_> = logical.storages_of(id)?.into_iter().filter(has_digest).collect();
        if !storages.is_empty() {
            storages.sort_unstable();
            storages.dedup();
            let compared = compared.lock().unwrap_or_else(PoisonError::into_inner);
            storages.retain(|storage| !compared.contains(storage));
        }
        Ok(storages)
    }

    fn has_compared(&self, storages: Vec<StorageId>) {
        if let Some(compared) = &self.opened.compared {
            compared.lock().unwrap_or_else(PoisonError::into_inner).extend(storages);
        }
    }

    /// Returns whether the tensor covers its whole storage, and the storage's byte order does not
    /// have to change.
    fn fills_as_it_lies(&self, storage: StorageId, buffer: &[u8], id: TensorId) -> bool {
        let catalog = &self.opened.catalog;
        let info = catalog.dtype_info(catalog.tensors()[id.0 as usize].dtype);
        catalog.storage(storage).is_some_and(|storage| {
            let is_little = storage.byte_order == ByteOrder::Little;
            storage.len == buffer.len() as u64
                && (is_little || info.is_some_and(|info| info.swap_unit() == 1))
        })
    }
}

/// Reads a contiguous tensor and computes the checksum of its bytes while they are in the CPU
/// cache.
fn read_summed(
    logical: &Logical<'_>,
    id: TensorId,
    algorithm: DigestAlgorithm,
    buffer: &mut [u8],
) -> Result<Checksum> {
    let none = algorithm.start()?;
    let chunks = buffer.par_chunks_mut(CHUNK).enumerate();
    let sums = chunks.map(|(index, chunk)| {
        logical.stored().session().check_cancelled()?;
        let mut sum = none;
        for window in chunk.chunks_mut(WINDOW_BYTES) {
            logical.read(id, (index * CHUNK) as u64 + sum.len(), window)?;
            sum.update(window);
        }
        Ok(sum)
    });
    sums.try_reduce(|| none, |sum, next| Ok(sum.join(next)))
}
