//! How much memory rows take.

use arrow_array::RecordBatch;
use tensorferry_sdk::arrow_array;

/// Bytes that a batch's rows take: a slice counts what it shows, not the buffers behind it.
#[must_use]
pub(super) fn batch_bytes(batch: &RecordBatch) -> u64 {
    let bytes = batch.columns().iter().map(|column| column.to_data().get_slice_memory_size());
    bytes.map(|bytes| bytes.map_or(0, |bytes| bytes as u64)).sum()
}
