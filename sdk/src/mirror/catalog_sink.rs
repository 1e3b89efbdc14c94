//! Passes a [`CatalogSink`] across the boundary.

use super::dtypes::Dtypes;
use super::loss::{decode_loss, encode_loss};
use super::nodes::{children, decode_node, encode_node};
use super::numbers::{byte_order, byte_order_number, edges, edges_number, order, order_number, unknown};
use super::values::send_value;
use crate::value::ValueNodes;
use crate::{
    Block, CatalogSink, Digest, DigestAlgorithm, Dtype, DtypeInfo, Error, FileId, Grid, Limits, Loss,
    LossSink, Node, NodeId, Region, Result, Storage, StorageId, StorageLocation, StorageRange, TensorId,
    Tiles, Value,
};
use tensorferry_abi::{
    Borrowed, CatalogSinkCalls, CatalogSinkTable, DtypeFacts, Failure, LossFacts, NodeFacts, StorageFacts,
    TensorFacts,
};

/// The values of `kind` in [`StorageFacts`].
const IN_FILE: u32 = 0;
const ENCODED: u32 = 1;
const INLINE: u32 = 2;
const JOINED: u32 = 3;

/// The values of `kind` in [`TensorFacts`].
const WHOLE: u32 = 0;
const IN_BLOCKS: u32 = 1;
const IN_TILES: u32 = 2;

/// Represents a missing storage, either of a missing tile or of a grid without a fill.
const NO_STORAGE: u32 = u32::MAX;

/// Returns the [`TensorFacts`] that all kinds of tensors have in common. The caller adds the
/// location of the data.
fn bare_facts<'a>(name: &'a str, dtype: u32, shape: &'a [u64], kind: u32) -> TensorFacts<'a> {
    let (storage, offset, blocks, tile) = (0, 0, &[][..], &[][..]);
    let (order, edges, tiles, tile_count, fill) = (0, 0, &[][..], 0, NO_STORAGE);
    TensorFacts {
        name,
        dtype,
        shape,
        kind,
        storage,
        offset,
        blocks,
        tile,
        order,
        edges,
        tiles,
        tile_count,
        fill,
    }
}

fn decode_grid(tensor: &TensorFacts<'_>) -> Result<Grid> {
    let storage = |id: u32| (id != NO_STORAGE).then_some(StorageId(id));
    let tiles = if tensor.tiles.is_empty() {
        Tiles::Consecutive { first: StorageId(tensor.storage), count: tensor.tile_count }
    } else {
        Tiles::Listed(tensor.tiles.iter().map(|&id| storage(id)).collect())
    };
    Ok(Grid {
        tile: tensor.tile.to_vec(),
        order: order(tensor.order)?,
        edges: edges(tensor.edges)?,
        tiles,
        fill: storage(tensor.fill),
    })
}

/// Encodes blocks as numbers. Each block becomes its storage, offset, origin, shape and strides.
pub(super) fn encode_blocks(blocks: &[Block]) -> Vec<u64> {
    let mut numbers = Vec::new();
    for block in blocks {
        numbers.extend([u64::from(block.storage.0), block.offset]);
        numbers.extend(&block.region.origin);
        numbers.extend(&block.region.shape);
        numbers.extend(block.strides.iter().map(|stride| stride.cast_unsigned()));
    }
    numbers
}

/// Decodes the blocks of [`encode_blocks`] for a tensor of this rank.
pub(super) fn decode_blocks(rank: usize, numbers: &[u64]) -> Result<Vec<Block>> {
    let wrong = || Error::plugin("the rank of the blocks differs from the rank of the tensor");
    let width = 2 + 3 * rank;
    if !numbers.len().is_multiple_of(width) {
        return Err(wrong());
    }
    let block = |numbers: &[u64]| {
        let (origin, rest) = numbers[2..].split_at(rank);
        let (shape, strides) = rest.split_at(rank);
        Ok(Block {
            region: Region { origin: origin.to_vec(), shape: shape.to_vec() },
            storage: StorageId(u32::try_from(numbers[0]).map_err(|_| wrong())?),
            offset: numbers[1],
            strides: strides.iter().map(|stride| stride.cast_signed()).collect(),
        })
    };
    numbers.chunks_exact(width).map(block).collect()
}

/// Decodes the ranges of a joined storage.
fn decode_ranges(numbers: &[u64]) -> Result<Vec<StorageRange>> {
    let wrong = || Error::plugin("ranges of a joined storage must be three numbers each");
    let (ranges, []) = numbers.as_chunks::<3>() else { return Err(wrong()) };
    let range = |&[storage, offset, len]: &[u64; 3]| {
        let storage = StorageId(u32::try_from(storage).map_err(|_| wrong())?);
        Ok(StorageRange { storage, offset, len })
    };
    ranges.iter().map(range).collect()
}

pub(super) struct LentCatalogSink<'a> {
    catalog: &'a mut dyn CatalogSink,
    limits: &'a Limits,
    values: ValueNodes,
}

impl<'a> LentCatalogSink<'a> {
    pub(super) fn new(catalog: &'a mut dyn CatalogSink, limits: &'a Limits) -> Self {
        Self { catalog, limits, values: ValueNodes::default() }
    }
}

impl CatalogSinkCalls for LentCatalogSink<'_> {
    fn storage(&mut self, storage: StorageFacts<'_>) -> Result<u32, Failure> {
        let place = match storage.kind {
            IN_FILE => StorageLocation::File { file: FileId(storage.file), offset: storage.offset },
            ENCODED => StorageLocation::Encoded { handle: storage.handle },
            INLINE => StorageLocation::Inline(storage.bytes.to_vec().into()),
            JOINED => Storage::joined(decode_ranges(storage.ranges)?).location,
            other => return Err(unknown("kind of storage", other).into()),
        };
        let digest = (storage.digest_algorithm != 0).then(|| Digest {
            algorithm: DigestAlgorithm(storage.digest_algorithm),
            value: storage.digest.into(),
        });
        let byte_order = byte_order(storage.byte_order)?;
        Ok(self.catalog.storage(Storage { location: place, len: storage.len, byte_order, digest })?.0)
    }

    fn dtype(&mut self, dtype: DtypeFacts<'_>) -> Result<u32, Failure> {
        let info = DtypeInfo::extension(dtype.name, dtype.block_elements, dtype.block_bytes, dtype.swap_unit)
            // The plugin made the declaration, so an invalid declaration is not a usage error.
            .map_err(|error| Error::plugin(error.message()))?;
        Ok(self.catalog.dtype(&info)?.id())
    }

    fn tensor(&mut self, tensor: TensorFacts<'_>) -> Result<u32, Failure> {
        let (name, dtype, shape) = (tensor.name, Dtype::from_id(tensor.dtype), tensor.shape);
        let id = match tensor.kind {
            WHOLE => self.catalog.tensor(name, dtype, shape, StorageId(tensor.storage), tensor.offset)?,
            IN_BLOCKS => self.catalog.tensor_of_blocks(
                name,
                dtype,
                shape,
                decode_blocks(shape.len(), tensor.blocks)?,
            )?,
            IN_TILES => self.catalog.tensor_of_tiles(name, dtype, shape, decode_grid(&tensor)?)?,
            other => return Err(unknown("kind of tensor", other).into()),
        };
        Ok(id.0)
    }

    fn value(&mut self, node: NodeFacts<'_>) -> Result<u32, Failure> {
        Ok(self.values.push(decode_node(&node), self.limits)?)
    }

    fn metadata(&mut self, key: &str, value: u32) -> Result<(), Failure> {
        Ok(self.catalog.metadata(key, self.values.value(value)?)?)
    }

    fn attribute(&mut self, tensor: u32, key: &str, value: u32) -> Result<(), Failure> {
        Ok(self.catalog.attribute(TensorId(tensor), key, self.values.value(value)?)?)
    }

    fn node(&mut self, node: NodeFacts<'_>) -> Result<u32, Failure> {
        Ok(self.catalog.node(decode_node(&node))?.0)
    }

    fn root(&mut self, node: u32) -> Result<(), Failure> {
        Ok(self.catalog.root(NodeId(node))?)
    }

    fn loss(&mut self, loss: LossFacts<'_>) -> Result<(), Failure> {
        Ok(self.catalog.loss(decode_loss(&loss))?)
    }

    fn origin(&mut self, format: &str) -> Result<(), Failure> {
        Ok(self.catalog.origin(format)?)
    }

    fn global(&mut self, name: &str) -> Result<(), Failure> {
        Ok(self.catalog.global(name)?)
    }

    fn step(&mut self, step: &str) -> Result<(), Failure> {
        Ok(self.catalog.step(step)?)
    }

    fn sidecar(&mut self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.catalog.sidecar(name, bytes)?)
    }
}

pub(super) struct RemoteCatalogSink<'a> {
    object: Borrowed<'a, CatalogSinkTable>,
    dtypes: Dtypes,
}

impl<'a> RemoteCatalogSink<'a> {
    pub(super) fn new(object: Borrowed<'a, CatalogSinkTable>) -> Self {
        Self { object, dtypes: Dtypes::default() }
    }

    /// Returns the host's number for a dtype. If necessary, first declares the dtype to the host.
    fn number(&mut self, dtype: Dtype) -> Result<u32> {
        if let Some(number) = self.dtypes.number(dtype) {
            return Ok(number);
        }
        let info = self.dtypes.info(dtype)?;
        self.declare(info).map(|(number, _)| number)
    }

    fn declare(&mut self, info: DtypeInfo) -> Result<(u32, Dtype)> {
        let number = self.object.dtype(DtypeFacts {
            name: info.name(),
            block_elements: info.block_elements(),
            block_bytes: info.block_bytes(),
            swap_unit: info.swap_unit(),
        })?;
        Ok((number, self.dtypes.insert(number, info)?))
    }
}

impl LossSink for RemoteCatalogSink<'_> {
    fn loss(&mut self, loss: Loss) -> Result<()> {
        Ok(self.object.loss(encode_loss(&loss))?)
    }
}

impl CatalogSink for RemoteCatalogSink<'_> {
    fn storage(&mut self, storage: Storage) -> Result<StorageId> {
        let digest = storage.digest.as_ref();
        let mut facts = StorageFacts {
            kind: IN_FILE,
            byte_order: byte_order_number(storage.byte_order),
            file: 0,
            offset: 0,
            len: storage.len,
            handle: 0,
            bytes: &[],
            ranges: &[],
            digest_algorithm: digest.map_or(0, |digest| digest.algorithm.0),
            digest: digest.map_or(&[], |digest| &digest.value),
        };
        let ranges: Vec<u64>;
        match &storage.location {
            StorageLocation::File { file, offset } => (facts.file, facts.offset) = (file.0, *offset),
            StorageLocation::Encoded { handle } => (facts.kind, facts.handle) = (ENCODED, *handle),
            StorageLocation::Inline(bytes) => (facts.kind, facts.bytes) = (INLINE, bytes),
            StorageLocation::Joined(joined) => {
                let numbers = joined.ranges().iter();
                ranges =
                    numbers.flat_map(|range| [range.storage.0.into(), range.offset, range.len]).collect();
                (facts.kind, facts.ranges) = (JOINED, &ranges);
            }
            StorageLocation::Cast(_) | StorageLocation::Computed(_) => {
                return Err(Error::plugin("a reader cannot add cast or computed storages"));
            }
        }
        Ok(StorageId(self.object.storage(facts)?))
    }

    fn dtype(&mut self, info: &DtypeInfo) -> Result<Dtype> {
        match self.dtypes.number_of(info) {
            Some((_, dtype)) => Ok(dtype),
            None => self.declare(info.clone()).map(|(_, dtype)| dtype),
        }
    }

    fn tensor(
        &mut self,
        name: &str,
        dtype: Dtype,
        shape: &[u64],
        storage: StorageId,
        offset: u64,
    ) -> Result<TensorId> {
        let (dtype, storage) = (self.number(dtype)?, storage.0);
        let facts = TensorFacts { storage, offset, ..bare_facts(name, dtype, shape, WHOLE) };
        Ok(TensorId(self.object.tensor(facts)?))
    }

    fn tensor_of_blocks(
        &mut self,
        name: &str,
        dtype: Dtype,
        shape: &[u64],
        blocks: Vec<Block>,
    ) -> Result<TensorId> {
        let rank = shape.len();
        if blocks
            .iter()
            .any(|b| b.region.origin.len() != rank || b.region.shape.len() != rank || b.strides.len() != rank)
        {
            return Err(Error::plugin("the rank of a block differs from the rank of the tensor").tensor(name));
        }
        let (dtype, blocks) = (self.number(dtype)?, encode_blocks(&blocks));
        let facts = TensorFacts { blocks: &blocks, ..bare_facts(name, dtype, shape, IN_BLOCKS) };
        Ok(TensorId(self.object.tensor(facts)?))
    }

    fn tensor_of_tiles(&mut self, name: &str, dtype: Dtype, shape: &[u64], grid: Grid) -> Result<TensorId> {
        let mut facts = bare_facts(name, self.number(dtype)?, shape, IN_TILES);
        let number = |storage: Option<StorageId>| storage.map_or(NO_STORAGE, |storage| storage.0);
        let listed: Vec<u32>;
        match &grid.tiles {
            Tiles::Consecutive { first, count } => (facts.storage, facts.tile_count) = (first.0, *count),
            Tiles::Listed(tiles) => {
                listed = tiles.iter().map(|&tile| number(tile)).collect();
                facts.tiles = &listed;
            }
        }
        (facts.tile, facts.fill) = (&grid.tile, number(grid.fill));
        (facts.order, facts.edges) = (order_number(grid.order), edges_number(grid.edges));
        Ok(TensorId(self.object.tensor(facts)?))
    }

    fn metadata(&mut self, key: &str, value: Value) -> Result<()> {
        let value = send_value(&value, |node| self.object.value(node))?;
        Ok(self.object.metadata(key, value)?)
    }

    fn attribute(&mut self, tensor: TensorId, key: &str, value: Value) -> Result<()> {
        let value = send_value(&value, |node| self.object.value(node))?;
        Ok(self.object.attribute(tensor.0, key, value)?)
    }

    fn node(&mut self, node: Node) -> Result<NodeId> {
        Ok(NodeId(self.object.node(encode_node(&node, &children(&node)))?))
    }

    fn root(&mut self, root: NodeId) -> Result<()> {
        Ok(self.object.root(root.0)?)
    }

    fn origin(&mut self, format: &str) -> Result<()> {
        Ok(self.object.origin(format)?)
    }

    fn global(&mut self, name: &str) -> Result<()> {
        Ok(self.object.global(name)?)
    }

    fn step(&mut self, step: &str) -> Result<()> {
        Ok(self.object.step(step)?)
    }

    fn sidecar(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        Ok(self.object.sidecar(name, bytes)?)
    }
}
