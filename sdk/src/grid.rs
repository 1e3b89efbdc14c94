//! A grid divides a tensor into tiles of one shape, with one storage per tile, as in chunked
//! formats. The blocks of a grid are created on request, so each of millions of chunks needs only a
//! few bytes.

use crate::{Block, Order, Region, StorageId, row_major_strides};

/// The tiles of a tensor. All tiles have the same shape, except at the edges of the tensor.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Shape of a tile, in elements. No dimension is 0.
    pub tile: Vec<u64>,
    /// Order of the elements in a tile.
    pub order: Order,
    /// How tiles that extend past the end of the tensor are stored.
    pub edges: Edges,
    /// Storages of the tiles, in row-major order of the tiles. A tile begins at the start of its
    /// storage.
    pub tiles: Tiles,
    /// Storage of the single element that fills tiles without a storage.
    pub fill: Option<StorageId>,
}

/// How tiles that extend past the end of the tensor are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Edges {
    /// Only the part inside the tensor is stored, as contiguous elements.
    Clipped,
    /// The whole tile is stored, but only the part inside the tensor is read.
    Padded,
}

/// The storages of a grid's tiles.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Tiles {
    /// The storages of the tiles have consecutive ids.
    Consecutive {
        /// Storage of the first tile.
        first: StorageId,
        /// Number of tiles.
        count: u32,
    },
    /// One storage per tile, or `None` for a missing tile.
    Listed(Vec<Option<StorageId>>),
}

impl Tiles {
    /// Returns the number of tiles.
    #[must_use]
    pub fn count(&self) -> u64 {
        match self {
            Self::Consecutive { count, .. } => (*count).into(),
            Self::Listed(listed) => listed.len() as u64,
        }
    }

    /// Returns the storage of a tile, or `None` if the tile is missing or the number is out of
    /// range.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<StorageId> {
        match self {
            Self::Consecutive { first, count } => {
                let number = u32::try_from(number).ok().filter(|number| number < count)?;
                first.0.checked_add(number).map(StorageId)
            }
            Self::Listed(listed) => *listed.get(usize::try_from(number).ok()?)?,
        }
    }

    /// Converts a list of consecutive ids to `Consecutive`.
    fn simplified(self) -> Self {
        let Self::Listed(listed) = &self else { return self };
        let Some(Some(first)) = listed.first().copied() else { return self };
        let is_consecutive = |(number, tile): (u64, &Option<StorageId>)| {
            tile.is_some_and(|tile| u64::from(tile.0) == u64::from(first.0) + number)
        };
        match u32::try_from(listed.len()) {
            Ok(count) if (0..).zip(listed).all(is_consecutive) => Self::Consecutive { first, count },
            _ => self,
        }
    }
}

impl Grid {
    /// Returns the number of tiles along each dimension of a tensor with this shape.
    pub(crate) fn counts<'a>(&'a self, shape: &'a [u64]) -> impl DoubleEndedIterator<Item = u64> + 'a {
        shape.iter().zip(&self.tile).map(|(&len, &tile)| len.div_ceil(tile))
    }

    /// Returns a tile as a block of a tensor with this shape. A missing tile becomes a block that
    /// repeats the fill element.
    pub(crate) fn block(&self, shape: &[u64], number: u64) -> Option<Block> {
        if number >= self.tiles.count() {
            return None;
        }
        let rank = shape.len();
        let mut region = Region { origin: vec![0; rank], shape: vec![0; rank] };
        let mut index = number;
        for dim in (0..rank).rev() {
            let count = shape[dim].div_ceil(self.tile[dim]);
            let start = index % count * self.tile[dim];
            index /= count;
            region.origin[dim] = start;
            region.shape[dim] = self.tile[dim].min(shape[dim] - start);
        }
        let (storage, strides) = match self.tiles.get(number) {
            Some(storage) => {
                let stored = if self.edges == Edges::Padded { &self.tile } else { &region.shape };
                (storage, strides(stored, self.order))
            }
            None => (self.fill?, vec![0; rank]),
        };
        Some(Block { region, storage, offset: 0, strides })
    }

    /// Returns the grid in its shortest form, without an unused fill. As a result, equivalent grids
    /// compare as equal.
    pub(crate) fn simplified(self) -> Self {
        let tiles = self.tiles.simplified();
        let has_absent = matches!(&tiles, Tiles::Listed(listed) if listed.contains(&None));
        Self { tiles, fill: self.fill.filter(|_| has_absent), ..self }
    }

    /// Returns the numbers of the tiles that overlap `region` in a tensor of shape `shape`.
    pub(crate) fn tiles_overlapping<'a>(
        &'a self,
        shape: &[u64],
        region: &Region,
    ) -> impl Iterator<Item = u64> + use<'a> {
        let counts: Vec<u64> = self.counts(shape).collect();
        let first: Vec<u64> =
            region.origin.iter().zip(&self.tile).map(|(start, tile)| start / tile).collect();
        let lens: Vec<u64> = (0..counts.len())
            .map(|dim| match region.shape[dim] {
                0 => 0,
                len => (region.origin[dim] + len - 1) / self.tile[dim] + 1 - first[dim],
            })
            .collect();
        (0..lens.iter().product::<u64>()).map(move |mut index| {
            let (mut number, mut weight) = (0, 1);
            for dim in (0..lens.len()).rev() {
                number += (first[dim] + index % lens[dim]) * weight;
                index /= lens[dim];
                weight *= counts[dim];
            }
            number
        })
    }

    /// Returns the storages of the tiles and of the fill.
    pub(crate) fn storages(&self) -> impl Iterator<Item = StorageId> + '_ {
        (0..self.tiles.count()).filter_map(|number| self.tiles.get(number)).chain(self.fill)
    }

    /// Returns this grid with each storage id mapped by `storage`.
    #[must_use]
    pub fn map_storages(&self, storage: impl Fn(StorageId) -> StorageId) -> Self {
        let listed = (0..self.tiles.count()).map(|number| self.tiles.get(number).map(&storage));
        let tiles = Tiles::Listed(listed.collect()).simplified();
        Self { tiles, fill: self.fill.map(&storage), ..self.clone() }
    }

    /// Moves a tile to a different storage. If the tile is missing, moves the fill instead.
    pub(crate) fn move_tile(&mut self, number: u64, storage: StorageId) {
        if let Tiles::Consecutive { .. } = &self.tiles {
            self.tiles = Tiles::Listed((0..self.tiles.count()).map(|n| self.tiles.get(n)).collect());
        }
        let Tiles::Listed(listed) = &mut self.tiles else { return };
        match usize::try_from(number).ok().and_then(|number| listed.get_mut(number)) {
            Some(Some(tile)) => *tile = storage,
            _ => self.fill = Some(storage),
        }
    }
}

/// Returns the strides of contiguous elements in the given order.
fn strides(shape: &[u64], order: Order) -> Vec<i64> {
    match order {
        Order::C => row_major_strides(shape),
        Order::Fortran => {
            let reversed: Vec<u64> = shape.iter().rev().copied().collect();
            let mut strides = row_major_strides(&reversed);
            strides.reverse();
            strides
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::{
        Catalog, CatalogBuilder, CatalogSink, Data, Dtype, Error, ErrorKind, FileId, Limits, MemorySource,
        Storage,
    };

    /// Builds a catalog with a tensor of `shape` in tiles of [2, 3]. `lens` contains the lengths of
    /// the tiles' storages, and a length of 0 means that the tile is missing.
    fn build(
        shape: &[u64],
        edges: Edges,
        lens: &[u64],
        change: impl Fn(&mut Grid),
    ) -> Result<Catalog, Error> {
        let source = MemorySource::file("x", vec![0_u8; 24]);
        let limits = Limits { entries: 50, expanded_bytes: 100, ..Limits::default() };
        let mut builder = CatalogBuilder::new("test", &source, &limits);
        let fill = builder.storage(Storage::inline([0; 4]))?;
        let storage = |&len: &u64| {
            let storage = (len > 0).then(|| builder.storage(Storage::file(FileId(0), 0, len)));
            storage.transpose()
        };
        let tiles = Tiles::Listed(lens.iter().map(storage).collect::<Result<_, Error>>()?);
        let mut grid = Grid { tile: vec![2, 3], order: Order::C, edges, tiles, fill: Some(fill) };
        change(&mut grid);
        builder.tensor_of_tiles("t", Dtype::F32, shape, grid)?;
        builder.finish()
    }

    #[test]
    fn every_tile_lies_in_its_storage() {
        let kind = |shape: &[u64], edges, lens: &[u64], change: fn(&mut Grid)| {
            build(shape, edges, lens, change).err().map(|error| error.kind())
        };
        let same = |_: &mut Grid| ();
        let (clipped, padded) = (Edges::Clipped, Edges::Padded);
        assert_eq!(kind(&[3, 4], clipped, &[24, 8, 12, 4], same), None);
        assert_eq!(kind(&[3, 4], clipped, &[24, 0, 12, 4], same), None);
        assert_eq!(kind(&[3, 4], padded, &[24, 24, 24, 24], same), None);
        assert_eq!(kind(&[0, 4], clipped, &[], same), None);
        let malformed = Some(ErrorKind::Malformed);
        assert_eq!(kind(&[3, 4], clipped, &[24, 8, 12, 3], same), malformed);
        // In a padded tile, the second row begins after a full row of the tile, which includes the
        // padding.
        assert_eq!(kind(&[3, 4], padded, &[24, 8, 12, 4], same), malformed);
        assert_eq!(kind(&[3, 4], clipped, &[24, 8, 12], same), malformed);
        assert_eq!(kind(&[3, 4], clipped, &[24, 8, 12, 4, 4], same), malformed);
        assert_eq!(kind(&[3, 4], clipped, &[24, 8, 12, 4], |grid| grid.tile[1] = 0), malformed);
        assert_eq!(kind(&[3, 4], clipped, &[24, 8, 12, 4], |grid| grid.tile.truncate(1)), malformed);
        assert_eq!(kind(&[u64::MAX, 4], clipped, &[24], |grid| grid.tile[0] = 1), malformed);
        let huge = |grid: &mut Grid| (grid.tile, grid.edges) = (vec![u64::MAX, u64::MAX], Edges::Padded);
        assert_eq!(kind(&[2, 2], padded, &[24], huge), malformed);
        assert_eq!(kind(&[3, 4], clipped, &[24, 0, 12, 4], |grid| grid.fill = None), Some(ErrorKind::Plugin));
        let other = |grid: &mut Grid| grid.tiles = Tiles::Consecutive { first: StorageId(3), count: 4 };
        assert_eq!(kind(&[3, 4], clipped, &[24; 4], other), Some(ErrorKind::Plugin));
        // The grid declares 51 tiles, and 50 of them are missing. Each missing tile expands 4
        // stored bytes to 24 bytes.
        let limit = Some(ErrorKind::Limit);
        let claimed = |grid: &mut Grid| grid.tiles = Tiles::Consecutive { first: StorageId(0), count: 51 };
        assert_eq!(kind(&[102, 3], clipped, &[], claimed), limit);
        assert_eq!(kind(&[100, 3], clipped, &[0; 50], same), limit);
    }

    #[test]
    fn equal_grids_are_tied_and_one_plain_tile_is_the_common_case() {
        let data = |shape: &[u64], lens: &[u64]| {
            build(shape, Edges::Clipped, lens, |_| ()).unwrap().tensors()[0].data.clone()
        };
        assert_eq!(data(&[2, 3], &[24]), Data::Whole { storage: StorageId(1), offset: 0 });
        let Data::Grid(grid) = data(&[3, 4], &[24, 8, 12, 4]) else { unreachable!() };
        assert_eq!(grid.tiles, Tiles::Consecutive { first: StorageId(1), count: 4 });
        assert_eq!(grid.fill, None);
    }

    #[test]
    fn a_region_touches_its_tiles_alone() {
        let catalog = build(&[5, 7], Edges::Clipped, &[24; 9], |_| ()).unwrap();
        let tensor = &catalog.tensors()[0];
        for rows in (0..5).flat_map(|start| (start..=5).map(move |end| start..end)) {
            for columns in (0..7).flat_map(|start| (start..=7).map(move |end| start..end)) {
                let region = Region {
                    origin: vec![rows.start, columns.start],
                    shape: vec![rows.end - rows.start, columns.end - columns.start],
                };
                let touches = |block: &Block| {
                    (0..2).all(|dim| {
                        let (a, b) = (&block.region, &region);
                        a.origin[dim].max(b.origin[dim])
                            < (a.origin[dim] + a.shape[dim]).min(b.origin[dim] + b.shape[dim])
                    })
                };
                let touching: Vec<Block> = tensor.blocks_of(&region).collect();
                assert_eq!(touching, tensor.blocks().filter(touches).collect::<Vec<_>>(), "{region:?}");
            }
        }
    }

    #[test]
    fn a_million_tiles_are_a_few_bytes_each() {
        let source = MemorySource::file("x", vec![0_u8; 16]);
        let limits = Limits::default();
        let mut builder = CatalogBuilder::new("test", &source, &limits);
        let first = builder.storage(Storage::file(FileId(0), 0, 16)).unwrap();
        for _ in 1..1_000_000 {
            builder.storage(Storage::file(FileId(0), 0, 16)).unwrap();
        }
        let tiles = Tiles::Consecutive { first, count: 1_000_000 };
        let grid = Grid { tile: vec![2, 2], order: Order::C, edges: Edges::Clipped, tiles, fill: None };
        builder.tensor_of_tiles("t", Dtype::F32, &[2000, 2000], grid).unwrap();
        let catalog = builder.finish().unwrap();
        let tensor = &catalog.tensors()[0];
        assert_eq!((tensor.bytes, tensor.block_count()), (16_000_000, 1_000_000));
        assert_eq!(tensor.block(999_999).unwrap().region.origin, [1998, 1998]);
        let row = Region { origin: vec![999, 0], shape: vec![1, 2000] };
        assert_eq!(tensor.blocks_of(&row).count(), 1000);
    }
}
