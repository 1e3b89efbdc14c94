//! A tensor with many tiles is copied in boxes, called slabs. A slab contains as many whole tiles
//! as fit in the memory budget. A slab is extended first along the destination's fastest axes, so
//! that the written runs are long. Slabs are also used for tensors whose rows are split into
//! adjacent pieces, such as weights that are split by columns. The rows are assembled in the slab
//! and written together. Each slab is created when it is needed, so that memory does not grow with
//! the number of tiles.
//!
//! Tiles larger than the budget are divided along the slowest axes.
//!
//! The digest of a tile is checked when the tile's slab is read, so the plan does not grow with the
//! number of tiles.

use crate::cast::CastLosses;
use crate::copy_plan::{MIN_RUN_BYTES, tensor_of};
use crate::gather::{Scratch, StridedCopy, swap};
use crate::stored::Stored;
use tensorferry_core::context::windows::{WINDOW_BYTES, size};
use tensorferry_sdk::{
    Block, ByteOrder, Catalog, Context, Data, Error, Order, Region, Result, StorageId, StorageLocation,
    Tensor, TensorPart,
};

/// Minimum number of tiles in a part for which slabs are used. A part with fewer tiles is planned
/// tile by tile, and shares its output windows with other small tensors.
const MIN_TILES: u64 = 64;

/// If a tensor is not stored in a grid, slabs are used only up to this number of blocks, because
/// every slab visits all blocks.
const MAX_BLOCKS: u64 = 256;

/// The slabs of a part of a tensor.
pub struct Slabs<'a> {
    tensor: &'a Tensor,
    /// The region of the tensor to copy.
    region: Region,
    order: Order,
    byte_order: ByteOrder,
    /// The number of bytes of an element. The next field is the number of bytes that are reversed
    /// together.
    width: u32,
    swap_unit: u32,
    /// The shape of a slab. Slabs begin at multiples of the shape.
    lens: Vec<u64>,
    /// The index of the region's first slab along each dimension. The next field is the number of
    /// slabs along each dimension.
    first: Vec<u64>,
    counts: Vec<u64>,
}

/// The buffers that a thread reuses from slab to slab.
#[derive(Debug, Default)]
pub struct SlabBuffers {
    scratch: Scratch,
    cast: Vec<u8>,
    slab: Vec<u8>,
}

/// Whether storages are checked against their digests while they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestPolicy {
    Checked,
    /// The digests are not checked here, because the caller checks them separately.
    Ignored,
}

impl<'a> Slabs<'a> {
    /// Returns the slabs of `part`, each of about `bytes` bytes, or `None` if the part has too few
    /// tiles.
    pub fn of(catalog: &'a Catalog, part: &TensorPart, bytes: usize) -> Result<Option<Self>> {
        Self::of_at_least(MIN_TILES, catalog, part, bytes)
    }

    fn of_at_least(many: u64, catalog: &'a Catalog, part: &TensorPart, bytes: usize) -> Result<Option<Self>> {
        let tensor = tensor_of(catalog, part.tensor)?;
        if matches!(tensor.data, Data::Empty | Data::Whole { .. }) {
            return Ok(None);
        }
        let info = catalog
            .dtype_info(tensor.dtype)
            .ok_or_else(|| Error::plugin("no such dtype").tensor(&tensor.name))?;
        let Some(width) = info.element_bytes() else { return Ok(None) };
        let region = part.region.clone().unwrap_or_else(|| Region::whole(&tensor.shape));
        let most = |bytes: usize| (bytes as u64 / u64::from(width)).max(1);
        let tiles = match &tensor.data {
            Data::Grid(grid) => Some(&grid.tile)
                .filter(|tile| places(&region, tile).map(|(_, count)| count).product::<u64>() >= many),
            _ => None,
        };
        let lens = if let Some(tile) = tiles {
            let tile = tile.iter().zip(&region.shape).map(|(&tile, &len)| tile.min(len)).collect();
            slab_lens(tile, &region, part.order, most(bytes))
        } else if is_in_short_runs(tensor, &region, part.order, width) {
            // A slab is at most as large as a window, so that assembled rows remain in the cache
            // until they are written.
            let end = region.origin.iter().zip(&region.shape).map(|(start, len)| start + len).collect();
            slab_lens(end, &region, part.order, most(bytes.min(WINDOW_BYTES)))
        } else {
            return Ok(None);
        };
        let (first, counts) = places(&region, &lens).unzip();
        let (order, byte_order, swap_unit) = (part.order, part.byte_order, info.swap_unit());
        Ok(Some(Self { tensor, region, order, byte_order, width, swap_unit, lens, first, counts }))
    }

    /// Returns the number of slabs.
    #[must_use]
    pub fn count(&self) -> usize {
        size(self.counts.iter().product())
    }

    /// Reads the slab with this number, which must be less than the number of slabs. Passes the
    /// slab's bytes to `write(offset, bytes)` in runs that are contiguous in the part. Returns how
    /// many values casts have changed in each way.
    pub fn copy(
        &self,
        number: usize,
        stored: &Stored<'_>,
        digests: DigestPolicy,
        buffers: &mut SlabBuffers,
        write: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<CastLosses> {
        let slab = self.slab(number);
        let mut lost = CastLosses::default();
        let bytes = slab.shape.iter().product::<u64>() * u64::from(self.width);
        // The buffer is not cleared, because the tiles cover every byte of it.
        buffers.slab.resize(size(bytes), 0);
        for block in self.tensor.blocks_of(&slab) {
            stored.session().check_cancelled()?;
            let own = if digests == DigestPolicy::Checked { self.own_digest(&block, stored) } else { None };
            lost += self.tile(&block, &slab, stored, own, buffers)?;
        }
        self.each_run(&slab, |to, from, len| write(to, &buffers.slab[from..from + len]))?;
        Ok(lost)
    }

    /// Copies the part of a tile that is inside the slab to its position in the slab's buffer. If
    /// `own` is set, the bytes of that storage are checked against its digest.
    fn tile(
        &self,
        block: &Block,
        slab: &Region,
        stored: &Stored<'_>,
        own: Option<StorageId>,
        buffers: &mut SlabBuffers,
    ) -> Result<CastLosses> {
        let Some(copy) = StridedCopy::new(block, slab, self.order, self.width) else {
            return Ok(CastLosses::default());
        };
        let SlabBuffers { scratch, cast, slab } = buffers;
        let mut write = |to: u64, bytes: &[u8]| {
            let to = size(to);
            slab[to..to + bytes.len()].copy_from_slice(bytes);
            Ok(())
        };
        let mut unchecked = own;
        let mut read = |id: StorageId, from: u64, buffer: &mut [u8]| {
            stored.read(id, from, buffer)?;
            if unchecked == Some(id) && buffer.len() as u64 == stored.storage(id)?.len {
                check(stored, id, buffer)?;
                unchecked = None;
            }
            Ok::<_, Error>(())
        };
        let is_same_order = stored.storage(block.storage)?.byte_order == self.byte_order;
        let swap_unit = if is_same_order { 1 } else { self.swap_unit };
        let most = stored.session().gather_bytes();
        let mut lost = CastLosses::default();
        match stored.chain(block.storage)? {
            Some(chain) => {
                for tile in chain.rescaled(&copy).tiles(most).iter() {
                    let lying = |from, lying: &mut [u8]| read(chain.of, from, lying);
                    lost +=
                        chain.copy_tile(&tile, swap_unit, (&mut *scratch, &mut *cast), lying, &mut write)?;
                }
            }
            None if copy.runs() == 1 => {
                let (to, run) = (size(copy.to), size(copy.run));
                read(block.storage, copy.from, &mut slab[to..to + run])?;
                swap(&mut slab[to..to + run], swap_unit);
            }
            None => {
                for tile in copy.tiles(most).iter() {
                    let read = |from, buffer: &mut [u8]| read(block.storage, from, buffer);
                    tile.copy(scratch, swap_unit, read, &mut write)?;
                }
            }
        }
        // If the storage was not read in one piece, it is checked below.
        stored.check_digests(&unchecked.into_iter().collect::<Vec<_>>())?;
        Ok(lost)
    }

    /// Returns the storages whose digests are checked during the copy. The digest of a storage is
    /// checked if one slab reads the whole storage.
    pub fn checked<'s>(&'s self, stored: &'s Stored<'_>) -> impl Iterator<Item = StorageId> + 's {
        self.tensor.blocks_of(&self.region).filter_map(|block| self.own_digest(&block, stored))
    }

    /// Returns the storage of a tile if the storage has a digest and is exactly as long as the
    /// tile, and one slab contains the whole tile. Longer storages are excluded. They may contain
    /// many tiles, and each tile would have to read the whole storage to check the digest.
    fn own_digest(&self, block: &Block, stored: &Stored<'_>) -> Option<StorageId> {
        let is_in_one_slab = (0..self.lens.len()).all(|d| {
            let (start, end) = (block.region.origin[d], block.region.origin[d] + block.region.shape[d]);
            let (from, to) = (self.region.origin[d], self.region.origin[d] + self.region.shape[d]);
            start >= from && end <= to && start / self.lens[d] == (end - 1) / self.lens[d]
        });
        let elements = block.region.shape.iter().product::<u64>();
        let bytes = elements * u64::from(self.width);
        let (id, bytes) = match &stored.storage(block.storage).ok()?.location {
            StorageLocation::Cast(cast) if cast.start == 0 => (cast.of, elements * cast.widths().0),
            StorageLocation::Cast(_) => return None,
            _ => (block.storage, bytes),
        };
        let storage = stored.storage(id).ok()?;
        // Encoded storages are checked when they are decoded. Joined storages are excluded, because
        // other storages may share their parts.
        let is_plain = matches!(storage.location, StorageLocation::File { .. } | StorageLocation::Inline(_));
        let is_own = is_in_one_slab && is_plain && storage.len == bytes && storage.digest.is_some();
        is_own.then_some(id)
    }

    /// Returns the region of the tensor that the slab with this number covers.
    fn slab(&self, number: usize) -> Region {
        let mut index = number as u64;
        let rank = self.lens.len();
        let mut slab = Region { origin: vec![0; rank], shape: vec![0; rank] };
        for d in (0..rank).rev() {
            let place = self.first[d] + index % self.counts[d];
            index /= self.counts[d];
            let (start, end) = (self.region.origin[d], self.region.origin[d] + self.region.shape[d]);
            slab.origin[d] = (place * self.lens[d]).max(start);
            slab.shape[d] = place.saturating_add(1).saturating_mul(self.lens[d]).min(end) - slab.origin[d];
        }
        slab
    }

    /// Iterates over the runs of a slab that are contiguous in the part. For each run, `each`
    /// receives the offset in the part, the offset in the slab, and the length, all in bytes.
    fn each_run(&self, slab: &Region, mut each: impl FnMut(u64, usize, usize) -> Result<()>) -> Result<()> {
        let width = u64::from(self.width);
        let (mut run, mut to, mut stride) = (width, 0, width);
        let mut is_open = true;
        // Dimensions that the run does not include, fastest first. Each entry contains the length
        // of the dimension and the distance between indices in the part.
        let mut outer = Vec::new();
        for d in fastest_first(slab.shape.len(), self.order) {
            to += (slab.origin[d] - self.region.origin[d]) * stride;
            if is_open {
                run *= slab.shape[d];
            } else {
                outer.push((slab.shape[d], stride));
            }
            is_open &= slab.shape[d] == self.region.shape[d];
            stride *= self.region.shape[d];
        }
        let count = outer.iter().map(|(len, _)| len).product::<u64>();
        (0..count).try_for_each(|number| {
            let (mut index, mut to) = (number, to);
            for &(len, stride) in &outer {
                to += index % len * stride;
                index /= len;
            }
            each(to, size(number * run), size(run))
        })
    }
}

/// Returns whether the region covers several blocks whose runs are too short to be written one by
/// one. The elements of these blocks must be in the order of the destination; other blocks are
/// transposed in tiles.
fn is_in_short_runs(tensor: &Tensor, region: &Region, order: Order, width: u32) -> bool {
    let bytes = region.shape.iter().product::<u64>() * u64::from(width);
    if bytes < WINDOW_BYTES as u64 || !(2..=MAX_BLOCKS).contains(&tensor.block_count()) {
        return false;
    }
    let Some(fastest) = fastest_first(region.shape.len(), order).next() else { return false };
    let copies = tensor.blocks_of(region).filter_map(|block| {
        let copy = StridedCopy::new(&block, region, order, width)?;
        let is_in_order = block.region.shape[fastest] == 1 || block.strides[fastest] == 1;
        Some((copy.runs() > 1 && copy.run < MIN_RUN_BYTES, is_in_order))
    });
    let (mut any_short, mut all_in_order) = (false, true);
    for (is_short, is_in_order) in copies {
        any_short |= is_short;
        all_in_order &= is_in_order;
    }
    any_short && all_in_order
}

/// Returns, for each dimension, the index of the first box of this shape that overlaps the region,
/// and the number of boxes that overlap it.
fn places<'a>(region: &'a Region, lens: &'a [u64]) -> impl Iterator<Item = (u64, u64)> + 'a {
    region.origin.iter().zip(&region.shape).zip(lens).map(|((&start, &len), &of)| {
        let first = start / of;
        (first, if len == 0 { 0 } else { (start + len - 1) / of + 1 - first })
    })
}

/// Returns the shape of a slab. A tile that is too large is divided along the slowest axes until it
/// has at most `most` elements. A smaller tile is extended along the fastest axes.
fn slab_lens(tile: Vec<u64>, region: &Region, order: Order, most: u64) -> Vec<u64> {
    let mut lens = tile;
    let elements = |lens: &[u64]| lens.iter().product::<u64>();
    let fastest: Vec<usize> = fastest_first(lens.len(), order).collect();
    for &d in fastest.iter().rev() {
        let others = elements(&lens) / lens[d];
        lens[d] = lens[d].min((most / others).max(1));
    }
    for &d in &fastest {
        let times = (most / elements(&lens)).max(1);
        let grown = lens[d].saturating_mul(times);
        // A slab that covers a whole axis extends to the end of the region, because the region may
        // not begin at a tile boundary.
        let end = region.origin[d] + region.shape[d];
        lens[d] = if grown >= end { end } else { grown };
        if lens[d] < end {
            break;
        }
    }
    lens
}

/// Iterates over the dimensions, from the fastest to the slowest in the element order.
fn fastest_first(rank: usize, order: Order) -> impl Iterator<Item = usize> {
    (0..rank).map(move |d| if order == Order::C { rank - 1 - d } else { d })
}

/// Checks a storage against its digest. All bytes of the storage must be in memory.
fn check(stored: &Stored<'_>, id: StorageId, bytes: &[u8]) -> Result<()> {
    let Some(expected) = &stored.storage(id)?.digest else { return Ok(()) };
    let mut sum = expected.algorithm.start()?;
    sum.update(bytes);
    let found = sum.digest();
    if found == *expected { Ok(()) } else { Err(stored.mismatch(id, expected, &found)) }
}

#[cfg(test)]
mod tests;
