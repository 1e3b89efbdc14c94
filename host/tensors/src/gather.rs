//! A gather copies elements that are stored with strides, and puts them in the order of their
//! destination.
//!
//! A gather works in tiles. A tile is a hyper-rectangle that is long in two directions: the
//! direction in which the source is contiguous, and the direction in which the destination is
//! contiguous. To transpose a tensor that is larger than memory, ferry therefore reads and writes
//! long runs, and copies every byte once. (If the gather wrote the output in order, it would read
//! the source once for each piece of the output. If it used a temporary file, it would write the
//! data twice.)
//!
//! A temporary file is needed only if a large strided tensor is read in order, to hash or stream
//! it. For ranges that are copied in tiles, digests are computed from the output file.

use std::ops::Range;
use tensorferry_core::context::windows::size;
use tensorferry_sdk::{Block, Order, Region};

/// One dimension of a strided copy: its length, and the strides in bytes on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Dim {
    len: u64,
    from: i64,
    to: u64,
}

/// A copy of runs of bytes, with strides between the runs in the source and in the destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StridedCopy {
    /// Offset of the first run in the source storage.
    pub from: u64,
    /// Offset of the first run in the destination.
    pub to: u64,
    /// Length in bytes of a run, which is contiguous on both sides.
    pub run: u64,
    /// The dimensions, from the slowest to the fastest dimension of the destination.
    dims: Vec<Dim>,
}

impl StridedCopy {
    /// Returns the copy of the part of a block that is inside `region`. The destination contains
    /// only the region, with its elements in the order `order`. Returns `None` if the block and the
    /// region do not overlap. `width` is the size of an element in bytes.
    #[must_use]
    #[expect(clippy::needless_range_loop, reason = "one index into six slices")]
    pub fn new(block: &Block, region: &Region, order: Order, width: u32) -> Option<Self> {
        let rank = region.shape.len();
        let width = u64::from(width);
        let mut to_strides = vec![width; rank];
        match order {
            Order::C => (1..rank).rev().for_each(|d| to_strides[d - 1] = to_strides[d] * region.shape[d]),
            Order::Fortran => (1..rank).for_each(|d| to_strides[d] = to_strides[d - 1] * region.shape[d - 1]),
        }
        let (mut from, mut to) = (block.offset.cast_signed(), 0);
        let mut dims = Vec::with_capacity(rank);
        for d in 0..rank {
            let start = region.origin[d].max(block.region.origin[d]);
            let end =
                (region.origin[d] + region.shape[d]).min(block.region.origin[d] + block.region.shape[d]);
            let len = end.checked_sub(start).filter(|&len| len > 0)?;
            let step = block.strides[d] * width.cast_signed();
            from += (start - block.region.origin[d]).cast_signed() * step;
            to += (start - region.origin[d]) * to_strides[d];
            dims.push(Dim { len, from: step, to: to_strides[d] });
        }
        Some(Self { from: from.cast_unsigned(), to, run: width, dims }.folded())
    }

    /// Merges adjacent dimensions that are contiguous on both sides. If the fastest dimensions are
    /// contiguous, merges them with the run.
    fn folded(mut self) -> Self {
        let mut dims = std::mem::take(&mut self.dims);
        dims.retain(|dim| dim.len != 1);
        dims.sort_by_key(|dim| dim.to);
        let mut folded: Vec<Dim> = Vec::with_capacity(dims.len());
        for dim in dims {
            if folded.is_empty() && dim.to == self.run && dim.from == self.run.cast_signed() {
                self.run *= dim.len;
                continue;
            }
            match folded.last_mut() {
                Some(inner)
                    if dim.to == inner.to * inner.len && dim.from == inner.from * inner.len.cast_signed() =>
                {
                    inner.len *= dim.len;
                }
                _ => folded.push(dim),
            }
        }
        folded.reverse();
        self.dims = folded;
        self
    }

    /// Joins neighboring copies that have equal shapes and are evenly spaced on both sides. Some
    /// layouts need many blocks. For example, a transposed matrix that is stored as a vector needs
    /// one block per row. The joined copies form a single gather whose tiles are long in both
    /// directions, which replaces one read per element.
    #[must_use]
    pub fn joined(mut copies: Vec<Self>) -> Vec<Self> {
        copies.sort_by_key(|copy| copy.to);
        loop {
            let before = copies.len();
            let mut joined: Vec<Self> = Vec::new();
            let mut rest = copies.into_iter().peekable();
            while let Some(mut copy) = rest.next() {
                let apart = |a: (u64, u64), b: &Self| (b.from.cast_signed() - a.0.cast_signed(), b.to - a.1);
                let alike = |other: &&Self| (other.run, &other.dims) == (copy.run, &copy.dims);
                let mut last = (copy.from, copy.to);
                let step = rest.peek().filter(alike).map(|next| apart(last, next)).filter(|step| step.1 > 0);
                let mut len = 1;
                while let Some(next) = rest.next_if(|next| alike(&next) && Some(apart(last, next)) == step) {
                    last = (next.from, next.to);
                    len += 1;
                }
                if let Some((from, to)) = step.filter(|_| len > 1) {
                    copy.dims.push(Dim { len, from, to });
                    copy = copy.folded();
                }
                joined.push(copy);
            }
            copies = joined;
            if copies.len() == before {
                return copies;
            }
        }
    }

    /// Returns the equivalent copy for elements of width `to_width` instead of `width`. `offset`
    /// converts the source offset of the first run.
    #[must_use]
    pub fn rescaled(&self, width: u64, to_width: u64, offset: impl Fn(u64) -> u64) -> Self {
        let scaled = |bytes: u64| bytes / width * to_width;
        let dim = |dim: &Dim| Dim {
            len: dim.len,
            from: dim.from / width.cast_signed() * to_width.cast_signed(),
            to: scaled(dim.to),
        };
        Self {
            from: offset(self.from),
            to: scaled(self.to),
            run: scaled(self.run),
            dims: self.dims.iter().map(dim).collect(),
        }
    }

    /// Returns the number of runs.
    #[must_use]
    pub fn runs(&self) -> u64 {
        self.dims.iter().map(|dim| dim.len).product()
    }

    /// Iterates over the runs. Each item is a run's offset in the source and its offset in the
    /// destination.
    pub fn each_run(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        (0..self.runs()).map(|mut index| {
            let (mut from, mut to) = (self.from.cast_signed(), self.to);
            for dim in self.dims.iter().rev() {
                let i = index % dim.len;
                index /= dim.len;
                from += i.cast_signed() * dim.from;
                to += i * dim.to;
            }
            (from.cast_unsigned(), to)
        })
    }

    /// Divides the copy into tiles of about `bytes` bytes each.
    #[must_use]
    pub fn tiles(&self, bytes: usize) -> CopyTiles<'_> {
        let lens = self.tile_lens(bytes as u64);
        let counts = self.dims.iter().zip(&lens).map(|(dim, &len)| dim.len.div_ceil(len)).collect();
        CopyTiles { copy: self, lens, counts }
    }

    /// Returns the shape of a tile. The tile is first extended evenly along the two directions in
    /// which runs can be long, and then along the other directions, fastest first.
    fn tile_lens(&self, bytes: u64) -> Vec<u64> {
        let mut lens = vec![1_u64; self.dims.len()];
        let fits = |lens: &[u64]| lens.iter().product::<u64>().saturating_mul(self.run) <= bytes;
        let Some(fastest_to) = self.dims.len().checked_sub(1) else { return lens };
        let fastest_from = self.source_order().last().copied().unwrap_or(fastest_to);
        let mut grow = |group: &[usize]| loop {
            let mut grew = false;
            for &d in group {
                let mut larger = lens.clone();
                larger[d] = (lens[d] * 2).min(self.dims[d].len);
                if larger[d] > lens[d] && fits(&larger) {
                    lens = larger;
                    grew = true;
                }
            }
            if !grew {
                break;
            }
        };
        grow(&[fastest_to, fastest_from]);
        (0..self.dims.len()).rev().for_each(|d| grow(&[d]));
        lens
    }

    /// Returns the dimensions with a nonzero source stride, slowest first.
    fn source_order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.dims.len()).filter(|&d| self.dims[d].from != 0).collect();
        order.sort_by_key(|&d| std::cmp::Reverse(self.dims[d].from.unsigned_abs()));
        order
    }
}

/// The layout of a tile's source bytes in the read buffer.
struct TileLayout {
    /// For each dimension, the distance in bytes from one index to the next.
    strides: Vec<i64>,
    /// Offset of the tile's first run in the buffer.
    first: i64,
}

/// The tiles of a strided copy. Each tile is created on request, because a large tensor has
/// millions of tiles.
pub struct CopyTiles<'a> {
    copy: &'a StridedCopy,
    lens: Vec<u64>,
    counts: Vec<u64>,
}

impl<'a> CopyTiles<'a> {
    /// Returns the number of tiles.
    #[must_use]
    pub fn count(&self) -> usize {
        size(self.counts.iter().product())
    }

    /// Returns the tile with this number, which must be less than the number of tiles.
    #[must_use]
    pub fn get(&self, number: usize) -> Tile<'a> {
        let mut index = number as u64;
        let mut ranges = vec![0..0; self.lens.len()];
        for d in (0..self.lens.len()).rev() {
            let start = index % self.counts[d] * self.lens[d];
            index /= self.counts[d];
            ranges[d] = start..(start + self.lens[d]).min(self.copy.dims[d].len);
        }
        Tile { copy: self.copy, ranges }
    }

    /// Iterates over all tiles, in order.
    pub fn iter(&self) -> impl Iterator<Item = Tile<'a>> {
        (0..self.count()).map(|number| self.get(number))
    }
}

/// A part of a strided copy that is copied as a unit.
pub struct Tile<'a> {
    copy: &'a StridedCopy,
    ranges: Vec<Range<u64>>,
}

impl Tile<'_> {
    fn len(&self, d: usize) -> u64 {
        self.ranges[d].end - self.ranges[d].start
    }

    /// Returns the size of the tile in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (0..self.ranges.len()).map(|d| self.len(d)).product::<u64>() * self.copy.run
    }

    /// Reads the tile with `read(offset, buffer)`, puts its runs in the order of the destination,
    /// and passes them to `write(offset, bytes)`. The bytes of each `write` call are contiguous in
    /// the destination.
    pub fn copy<E>(
        &self,
        scratch: &mut Scratch,
        swap_unit: u32,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
        mut write: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let buffered = self.read(&mut scratch.source, &mut read)?;
        let len = size(self.bytes());
        scratch.output.resize(len, 0);
        self.permute(&buffered, &scratch.source, &mut scratch.output);
        swap(&mut scratch.output, swap_unit);
        self.write(&scratch.output, &mut write)
    }

    /// Reads the tile's source bytes in a few long reads, but limits the number of unneeded bytes.
    fn read<E>(
        &self,
        buffer: &mut Vec<u8>,
        read: &mut impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<TileLayout, E> {
        let dims = &self.copy.dims;
        let order = self.copy.source_order();
        let reach = |d: usize| (self.len(d) - 1) * dims[d].from.unsigned_abs();
        // One read covers the innermost `inner` dimensions, including the gaps between runs. There
        // is one read for each combination of indices in the other dimensions.
        let (mut inner, mut extent, mut needed) = (0, self.copy.run, self.copy.run);
        let (mut best_inner, mut best_extent) = (0, extent);
        for &d in order.iter().rev() {
            inner += 1;
            extent += reach(d);
            needed = needed.saturating_mul(self.len(d));
            if extent <= (2 * needed).max(4096) {
                (best_inner, best_extent) = (inner, extent);
            }
        }
        let (outer, inner) = order.split_at(order.len() - best_inner);
        let slots: u64 = outer.iter().map(|&d| self.len(d)).product();
        buffer.resize(size(slots * best_extent), 0);

        let mut strides = vec![0_i64; dims.len()];
        // The lowest byte that one read covers. If a stride is negative, this byte is at the last
        // index of the dimension.
        let mut first = 0_i64;
        for &d in inner {
            strides[d] = dims[d].from;
            if dims[d].from < 0 {
                first += reach(d).cast_signed();
            }
        }
        let mut slot_stride = best_extent;
        for &d in outer.iter().rev() {
            strides[d] = slot_stride.cast_signed();
            slot_stride *= self.len(d);
        }
        let mut base = self.copy.from.cast_signed() - first;
        for (dim, range) in dims.iter().zip(&self.ranges) {
            base += range.start.cast_signed() * dim.from;
        }
        let slot_len = size(best_extent);
        for (slot, bytes) in (0_u64..).zip(buffer.chunks_exact_mut(slot_len)) {
            let mut index = slot;
            let mut from = base;
            for &d in outer.iter().rev() {
                from += (index % self.len(d)).cast_signed() * dims[d].from;
                index /= self.len(d);
            }
            read(from.cast_unsigned(), bytes)?;
        }
        Ok(TileLayout { strides, first })
    }

    /// Puts the buffered runs in the order of the destination.
    fn permute(&self, buffered: &TileLayout, source: &[u8], output: &mut [u8]) {
        let rank = self.ranges.len();
        let mut out_strides = vec![0_u64; rank];
        let mut stride = self.copy.run;
        for d in (0..rank).rev() {
            out_strides[d] = stride;
            stride *= self.len(d);
        }
        // The two dimensions with the nearest neighbors in memory are traversed innermost, in small
        // squares, so that both sides stay in the cache. The order of the other dimensions does not
        // matter.
        let fast_to = rank.saturating_sub(1);
        let near = |d: &usize| buffered.strides[*d].unsigned_abs();
        let fast_from = (0..fast_to).filter(|d| buffered.strides[*d] != 0).min_by_key(near);
        let dim = |d: usize| DimSteps { len: self.len(d), from: buffered.strides[d], to: out_strides[d] };
        let still = DimSteps { len: 1, from: 0, to: 0 };
        let inner = if rank == 0 { still } else { dim(fast_to) };
        let across = fast_from.map_or(still, dim);
        let outer: Vec<DimSteps> = (0..fast_to).filter(|&d| Some(d) != fast_from).map(dim).collect();
        for mut index in 0..outer.iter().map(|walk| walk.len).product::<u64>() {
            let (mut from, mut to) = (buffered.first, 0);
            for walk in outer.iter().rev() {
                let i = index % walk.len;
                index /= walk.len;
                from += i.cast_signed() * walk.from;
                to += i * walk.to;
            }
            let plane = Plane { from, to, inner, across };
            match self.copy.run {
                1 => plane.copy::<1>(source, output),
                2 => plane.copy::<2>(source, output),
                4 => plane.copy::<4>(source, output),
                8 => plane.copy::<8>(source, output),
                16 => plane.copy::<16>(source, output),
                run => plane.copy_runs(source, output, size(run)),
            }
        }
    }

    fn write<E>(&self, output: &[u8], write: &mut impl FnMut(u64, &[u8]) -> Result<(), E>) -> Result<(), E> {
        let dims = &self.copy.dims;
        let mut contiguous = self.copy.run;
        let mut outer = dims.len();
        while outer > 0 && dims[outer - 1].to == contiguous {
            outer -= 1;
            contiguous *= self.len(outer);
        }
        let mut base = self.copy.to;
        for (dim, range) in dims.iter().zip(&self.ranges) {
            base += range.start * dim.to;
        }
        let len = size(contiguous);
        for (piece, bytes) in (0_u64..).zip(output.chunks_exact(len)) {
            let mut index = piece;
            let mut to = base;
            for d in (0..outer).rev() {
                to += index % self.len(d) * dims[d].to;
                index /= self.len(d);
            }
            write(to, bytes)?;
        }
        Ok(())
    }
}

/// Buffers that one thread reuses for its tiles.
#[derive(Debug, Default)]
pub struct Scratch {
    source: Vec<u8>,
    output: Vec<u8>,
}

#[derive(Clone, Copy)]
struct DimSteps {
    len: u64,
    from: i64,
    to: u64,
}

struct Plane {
    from: i64,
    to: u64,
    inner: DimSteps,
    across: DimSteps,
}

impl Plane {
    /// Copies elements whose width is a constant, so that each element is copied by one load and
    /// one store.
    fn copy<const WIDTH: usize>(&self, source: &[u8], output: &mut [u8]) {
        self.each(|from, to| {
            let element: [u8; WIDTH] = source[from..from + WIDTH].try_into().unwrap_or([0; WIDTH]);
            output[to..to + WIDTH].copy_from_slice(&element);
        });
    }

    fn copy_runs(&self, source: &[u8], output: &mut [u8], run: usize) {
        self.each(|from, to| output[to..to + run].copy_from_slice(&source[from..from + run]));
    }

    #[inline]
    fn each(&self, mut copy: impl FnMut(usize, usize)) {
        const BLOCK_LEN: usize = 32;
        for rows in (0..self.across.len).step_by(BLOCK_LEN) {
            for columns in (0..self.inner.len).step_by(BLOCK_LEN) {
                for j in rows..(rows + BLOCK_LEN as u64).min(self.across.len) {
                    let row_from = self.from + j.cast_signed() * self.across.from;
                    let row_to = self.to + j * self.across.to;
                    for i in columns..(columns + BLOCK_LEN as u64).min(self.inner.len) {
                        let from = (row_from + i.cast_signed() * self.inner.from).cast_unsigned();
                        let to = row_to + i * self.inner.to;
                        copy(size(from), size(to));
                    }
                }
            }
        }
    }
}

/// Reverses each group of `unit` bytes.
pub fn swap(bytes: &mut [u8], unit: u32) {
    match unit {
        0 | 1 => {}
        2 => bytes.as_chunks_mut::<2>().0.iter_mut().for_each(|b| b.reverse()),
        4 => bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|b| b.reverse()),
        8 => bytes.as_chunks_mut::<8>().0.iter_mut().for_each(|b| b.reverse()),
        unit => bytes.chunks_exact_mut(unit as usize).for_each(<[u8]>::reverse),
    }
}

#[cfg(test)]
mod tests;
