//! A copy plan describes how the bytes of a tensor part are copied from storages. The plan contains
//! a contiguous copy wherever both the storage and the part are contiguous, and strided copies
//! elsewhere.

use crate::gather::StridedCopy;
use std::borrow::Cow;
use tensorferry_sdk::{
    Block, ByteOrder, Catalog, Data, Error, Order, Region, Result, StorageId, Tensor, TensorId, TensorPart,
};

/// Minimum length of a run, in bytes, for which a separate read is worthwhile.
pub(super) const MIN_RUN_BYTES: u64 = 16 << 10;

/// Maximum number of runs in one block that become separate reads.
const MAX_RUNS: u64 = 1 << 16;

/// Minimum number of blocks in a storage for which it is worthwhile to search for a pattern.
const MIN_PATTERN_BLOCKS: usize = 16;

/// A copy operation for some bytes in a part of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlannedCopy {
    /// A copy of contiguous bytes in a storage.
    Contiguous {
        /// Offset in the part at which the bytes are written.
        to: u64,
        /// Number of bytes.
        len: u64,
        storage: StorageId,
        /// Offset of the first byte in the storage.
        from: u64,
        /// Number of bytes that are reversed together; 1 if no bytes are reversed.
        swap_unit: u32,
    },
    /// A copy of elements with strides.
    Strided {
        copy: StridedCopy,
        storage: StorageId,
        /// Number of bytes that are reversed together; 1 if no bytes are reversed.
        swap_unit: u32,
    },
}

pub fn tensor_of(catalog: &Catalog, id: TensorId) -> Result<&Tensor> {
    catalog.tensor(id).ok_or_else(|| Error::plugin(format!("no tensor {}", id.0)))
}

/// Returns the copies that produce all bytes of a part, in no particular order.
pub fn plan_copies(catalog: &Catalog, part: &TensorPart) -> Result<Vec<PlannedCopy>> {
    let tensor = tensor_of(catalog, part.tensor)?;
    let info = catalog
        .dtype_info(tensor.dtype)
        .ok_or_else(|| Error::plugin("no such dtype").tensor(&tensor.name))?;
    let swap_unit = |storage: StorageId| {
        let order = catalog.storage(storage).map_or(ByteOrder::Little, |s| s.byte_order);
        if order == part.byte_order { 1 } else { info.swap_unit() }
    };
    let whole = part.region.as_ref().is_none_or(|region| region.is_whole(&tensor.shape));
    let row_major = part.order == Order::C || tensor.shape.len() < 2;
    if let (Data::Whole { storage, offset }, true, true) = (&tensor.data, whole, row_major) {
        let swap_unit = swap_unit(*storage);
        return Ok(vec![PlannedCopy::Contiguous {
            to: 0,
            len: tensor.bytes,
            storage: *storage,
            from: *offset,
            swap_unit,
        }]);
    }
    let region = match &part.region {
        Some(region) => Cow::Borrowed(region),
        None => Cow::Owned(Region::whole(&tensor.shape)),
    };
    let mut planned = Vec::new();
    let mut copies: Vec<(StorageId, StridedCopy)> = Vec::new();
    for block in tensor.blocks_of(&region) {
        let (storage, swap_unit) = (block.storage, swap_unit(block.storage));
        let Some(width) = info.element_bytes() else {
            // The layout check allows packed elements only if the part is the complete tensor in
            // row-major order.
            let (to, len) = packed_run(&block, &tensor.shape, |elements| info.bytes_of(elements))?;
            planned.push(PlannedCopy::Contiguous { to, len, storage, from: block.offset, swap_unit });
            continue;
        };
        if let Some(copy) = StridedCopy::new(&block, &region, part.order, width) {
            copies.push((storage, copy));
        }
    }
    copies.sort_by_key(|(storage, _)| *storage);
    let mut copies = copies.into_iter().peekable();
    while let Some((storage, first)) = copies.next() {
        let mut of_storage = vec![first];
        while let Some((_, next)) = copies.next_if(|(other, _)| *other == storage) {
            of_storage.push(next);
        }
        let copies = of_storage;
        let swap_unit = swap_unit(storage);
        let copies = if copies.len() < MIN_PATTERN_BLOCKS { copies } else { StridedCopy::joined(copies) };
        for copy in copies {
            planned.extend(copies_of(copy, storage, swap_unit));
        }
    }
    Ok(planned)
}

/// Splits a strided copy with long runs into one copy per run.
pub(super) fn copies_of(
    copy: StridedCopy,
    storage: StorageId,
    swap_unit: u32,
) -> impl Iterator<Item = PlannedCopy> {
    let is_in_runs = copy.runs() == 1 || (copy.run >= MIN_RUN_BYTES && copy.runs() <= MAX_RUNS);
    let len = copy.run;
    let runs: Vec<_> = if is_in_runs { copy.each_run().collect() } else { Vec::new() };
    let strided = (!is_in_runs).then_some(PlannedCopy::Strided { copy, storage, swap_unit });
    let read = move |(from, to)| PlannedCopy::Contiguous { to, len, storage, from, swap_unit };
    runs.into_iter().map(read).chain(strided)
}

fn packed_run(block: &Block, shape: &[u64], bytes_of: impl Fn(u64) -> Result<u64>) -> Result<(u64, u64)> {
    let run = block.region.row_major_run(shape);
    let (first, count) =
        run.ok_or_else(|| Error::plugin("packed elements in a block that is not contiguous"))?;
    Ok((bytes_of(first)?, bytes_of(count)?))
}
