//! A cast changes the dtype of tensors. A cast does not convert any data. Instead, it moves the
//! blocks to new storages, which represent the old storages in the new dtype. The elements are
//! converted when the tensor is copied.
//!
//! Blocks keep their order, their strides and the bytes that they share. Tied tensors that are cast
//! to the same dtype remain tied, and overlapping views still overlap.

use crate::{
    ByteOrder, CastStorage, Catalog, Data, Dtype, DtypeInfo, Error, Result, Storage, StorageId,
    StorageLocation, Tensor, TensorId,
};
use std::ops::Range;
use std::sync::Arc;

impl Catalog {
    /// Returns this catalog with each listed tensor cast to the dtype in its pair. A tensor that
    /// already has that dtype is not changed.
    ///
    /// # Errors
    /// Returns a usage error if there is no such tensor. Returns an unsupported error if either
    /// dtype is not built in or its elements are not whole bytes. Returns a limit error if lengths
    /// or ids overflow.
    pub fn cast(&self, casts: &[(TensorId, Dtype)]) -> Result<Self> {
        let mut catalog = self.clone();
        let mut moved = Vec::new();
        for &(id, to) in casts {
            let place = id.0 as usize;
            let tensor = catalog.tensors.get_mut(place);
            let tensor = tensor.ok_or_else(|| Error::usage(format!("no tensor {}", id.0)))?;
            if tensor.dtype == to {
                continue;
            }
            let pair = CastDtypes::of(tensor.dtype, to).map_err(|e| e.tensor(&tensor.name))?;
            for (number, block) in (0_u64..).zip(tensor.blocks()) {
                let reach = block.extent(Some(pair.from_width), 0);
                if !reach.is_empty() {
                    let (storage, offset) = (block.storage, block.offset);
                    moved.push(MovedBlock { tensor: place, number, pair, storage, offset, reach });
                }
            }
            tensor.bytes = info(to)?.bytes_of(tensor.bytes / u64::from(pair.from_width))?;
            tensor.dtype = to;
        }
        moved.sort_by_key(|block| (block.group(), block.reach.start, block.reach.end));
        for group in moved.chunk_by_mut(|a, b| a.group() == b.group()) {
            catalog.move_overlapping(group)?;
        }
        Ok(catalog)
    }

    /// Creates a new storage for each run of overlapping blocks. All `blocks` must have the same
    /// [key](MovedBlock::group) and be ordered by their first bytes.
    fn move_overlapping(&mut self, mut blocks: &mut [MovedBlock]) -> Result<()> {
        while let Some(first) = blocks.first() {
            let mut range = first.reach.clone();
            let mut count = 1;
            while let Some(next) = blocks.get(count).filter(|next| next.reach.start < range.end) {
                range.end = range.end.max(next.reach.end);
                count += 1;
            }
            let (together, rest) = blocks.split_at_mut(count);
            let storage = self.cast_storage(&together[0], &range)?;
            for block in together {
                block.point_to(&mut self.tensors[block.tensor], storage, range.start);
            }
            blocks = rest;
        }
        Ok(())
    }

    fn cast_storage(&mut self, first: &MovedBlock, range: &Range<u64>) -> Result<StorageId> {
        let CastDtypes { from, to, from_width, to_width } = first.pair;
        let elements = (range.end - range.start) / u64::from(from_width);
        let len = elements.checked_mul(to_width.into());
        let len = len.ok_or_else(|| Error::limit("the length of a cast storage exceeds 64 bits"))?;
        let cast = match self.storage(first.storage).map(|storage| &storage.location) {
            Some(StorageLocation::Cast(below)) => {
                let (stored, read) = below.widths();
                CastStorage {
                    of: below.of,
                    start: below.start + range.start / read * stored,
                    dtypes: below.dtypes.iter().copied().chain([to]).collect(),
                }
            }
            _ => CastStorage { of: first.storage, start: range.start, dtypes: vec![from, to] },
        };
        let id = u32::try_from(self.storages.len()).map_err(|_| Error::limit("too many storages"))?;
        let byte_order = ByteOrder::Little;
        self.storages.push(Storage {
            location: StorageLocation::Cast(Arc::new(cast)),
            len,
            byte_order,
            digest: None,
        });
        Ok(StorageId(id))
    }
}

/// The two dtypes of a cast, and the number of bytes per element in each.
#[derive(Clone, Copy)]
struct CastDtypes {
    from: Dtype,
    to: Dtype,
    from_width: u32,
    to_width: u32,
}

impl CastDtypes {
    fn of(from: Dtype, to: Dtype) -> Result<Self> {
        let width = |dtype| {
            let info = info(dtype)?;
            let bytes = info.element_bytes();
            bytes
                .ok_or_else(|| Error::unsupported(format!("elements of {} are not whole bytes", info.name())))
        };
        Ok(Self { from, to, from_width: width(from)?, to_width: width(to)? })
    }
}

fn info(dtype: Dtype) -> Result<&'static DtypeInfo> {
    dtype.info().ok_or_else(|| Error::unsupported("cannot cast a dtype that is not built in"))
}

/// A block to move to a cast storage.
struct MovedBlock {
    tensor: usize,
    /// Number of the block in its tensor.
    number: u64,
    pair: CastDtypes,
    storage: StorageId,
    /// Offset of the block's first element, in bytes.
    offset: u64,
    /// Range of bytes in the storage that contains the block's elements.
    reach: Range<u64>,
}

impl MovedBlock {
    /// Returns the key of the block. Two blocks can use the same cast storage only if their keys
    /// are equal. The key includes the alignment of the elements.
    fn group(&self) -> (StorageId, Dtype, Dtype, u64) {
        let CastDtypes { from, to, from_width, .. } = self.pair;
        (self.storage, from, to, self.offset % u64::from(from_width))
    }

    /// Changes the tensor's block to refer to the cast storage, whose first byte corresponds to
    /// byte `start` of the old storage.
    fn point_to(&self, tensor: &mut Tensor, storage: StorageId, start: u64) {
        let CastDtypes { from_width, to_width, .. } = self.pair;
        let offset = (self.offset - start) / u64::from(from_width) * u64::from(to_width);
        match &mut tensor.data {
            Data::Empty => {}
            Data::Whole { storage: old, offset: at } => (*old, *at) = (storage, offset),
            Data::Blocks(blocks) => {
                let block = &mut blocks[usize::try_from(self.number).unwrap_or(usize::MAX)];
                (block.storage, block.offset) = (storage, offset);
            }
            // Before and after the cast, a tile begins at the start of its storage.
            Data::Grid(grid) => grid.move_tile(self.number, storage),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::Block;
    use crate::{CatalogBuilder, CatalogSink, FileId, Limits, MemorySource, Region};

    /// Returns a catalog for one file of 96 bytes. Storage 0 covers the whole file.
    fn catalog(fill: impl FnOnce(&mut CatalogBuilder<'_>, StorageId)) -> Catalog {
        let source = MemorySource::file("x", vec![0; 96]);
        let limits = Limits::default();
        let mut builder = CatalogBuilder::new("test", &source, &limits);
        let storage = builder.storage(Storage::file(FileId(0), 0, 96)).unwrap();
        fill(&mut builder, storage);
        builder.finish().unwrap()
    }

    fn cast_at(catalog: &Catalog, storage: u32) -> (&CastStorage, u64) {
        let storage = catalog.storage(StorageId(storage)).unwrap();
        let StorageLocation::Cast(cast) = &storage.location else { panic!("{storage:?} is not a cast") };
        (cast, storage.len)
    }

    fn view(shape: &[u64], offset: u64, strides: &[i64]) -> Vec<Block> {
        let region = Region::whole(shape);
        vec![Block { region, storage: StorageId(0), offset, strides: strides.to_vec() }]
    }

    #[test]
    fn each_tensor_has_just_its_own_numbers() {
        let before = catalog(|b, s| {
            b.tensor("a", Dtype::F32, &[2, 3], s, 3).unwrap();
            b.tensor("b", Dtype::F64, &[2], s, 40).unwrap();
            b.tensor("empty", Dtype::F32, &[0, 3], s, 0).unwrap();
        });
        let casts = [(0, Dtype::BF16), (1, Dtype::F32), (2, Dtype::BF16)];
        let after = before.cast(&casts.map(|(id, dtype)| (TensorId(id), dtype))).unwrap();
        let (cast, len) = cast_at(&after, 1);
        assert_eq!((cast.start, len, cast.dtypes.as_slice()), (3, 12, &[Dtype::F32, Dtype::BF16][..]));
        assert_eq!(after.tensors()[0].data, Data::Whole { storage: StorageId(1), offset: 0 });
        assert_eq!(after.tensors()[0].bytes, 12);
        assert_eq!(cast_at(&after, 2).1, 8);
        let empty = &after.tensors()[2];
        assert_eq!((empty.dtype, empty.bytes, &empty.data), (Dtype::BF16, 0, &Data::Empty));
        assert_eq!(after.storages().len(), 3);
    }

    #[test]
    fn ties_and_overlaps_stay_where_the_cast_is_the_same() {
        let before = catalog(|b, s| {
            b.tensor("a", Dtype::F32, &[4], s, 16).unwrap();
            b.tensor("tied", Dtype::F32, &[4], s, 16).unwrap();
            b.tensor_of_blocks("back", Dtype::F32, &[3], view(&[3], 20, &[-1])).unwrap();
            b.tensor_of_blocks("same", Dtype::F32, &[5], view(&[5], 28, &[0])).unwrap();
            b.tensor("apart", Dtype::F32, &[4], s, 32).unwrap();
            b.tensor("other", Dtype::F32, &[4], s, 16).unwrap();
            b.tensor("odd", Dtype::F32, &[4], s, 17).unwrap();
        });
        let mut casts: Vec<_> = (0..7).map(|id| (TensorId(id), Dtype::F16)).collect();
        casts[5].1 = Dtype::F64;
        let after = before.cast(&casts).unwrap();
        assert_eq!(after.ties()[..2], [TensorId(0), TensorId(0)]);
        assert_eq!(after.ties()[5], TensorId(5));
        let of = |tensor: usize| match &after.tensors()[tensor].data {
            Data::Whole { storage, offset } => (*storage, *offset),
            Data::Blocks(blocks) => (blocks[0].storage, blocks[0].offset),
            Data::Empty | Data::Grid(_) => panic!("expected one storage"),
        };
        // The shared storage starts at byte 12, the first byte of `back`. The shared storage ends
        // at byte 32, where `apart` begins.
        let (shared, _) = of(0);
        assert_eq!([of(0), of(2), of(3)].map(|(s, o)| (s == shared, o)), [(true, 2), (true, 4), (true, 8)]);
        assert_eq!(cast_at(&after, shared.0).1, 10);
        assert!(of(4).0 != shared && of(6).0 != shared && of(5).0 != shared);
        assert_eq!(after.storages().len(), 5);
    }

    #[test]
    fn a_second_cast_reads_through_the_first() {
        let before = catalog(|b, s| {
            b.tensor("a", Dtype::F32, &[8], s, 16).unwrap();
        });
        let once = before.cast(&[(TensorId(0), Dtype::BF16)]).unwrap();
        let twice = once.cast(&[(TensorId(0), Dtype::F64)]).unwrap();
        let (cast, len) = cast_at(&twice, 2);
        assert_eq!((cast.of, cast.start, len), (StorageId(0), 16, 64));
        assert_eq!(cast.dtypes, [Dtype::F32, Dtype::BF16, Dtype::F64]);
        assert_eq!(once.cast(&[(TensorId(0), Dtype::BF16)]).unwrap().storages().len(), 2);
    }

    #[test]
    fn packed_elements_and_strings_are_not_cast() {
        let before = catalog(|b, s| {
            b.tensor("packed", Dtype::F4, &[8], s, 0).unwrap();
            b.tensor("a", Dtype::F32, &[8], s, 0).unwrap();
        });
        assert!(before.cast(&[(TensorId(0), Dtype::F32)]).is_err());
        assert!(before.cast(&[(TensorId(1), Dtype::STR)]).is_err());
        assert!(before.cast(&[(TensorId(2), Dtype::F32)]).is_err());
    }

    #[test]
    fn no_reader_makes_a_cast() {
        let source = MemorySource::file("x", vec![0; 96]);
        let limits = Limits::default();
        let mut builder = CatalogBuilder::new("test", &source, &limits);
        let of = builder.storage(Storage::file(FileId(0), 0, 96)).unwrap();
        let place = StorageLocation::Cast(Arc::new(CastStorage {
            of,
            start: 0,
            dtypes: vec![Dtype::F32, Dtype::F16],
        }));
        let storage = Storage { location: place, len: 48, byte_order: ByteOrder::Little, digest: None };
        assert!(builder.storage(storage).is_err());
    }
}
