//! [`CatalogSink`] across the boundary.

use super::guard::{guard, received};
use super::loss::{received_loss, sent_loss};
use crate::{
    Block, ByteOrder, CatalogSink, Digest, DigestAlgorithm, Dtype, DtypeInfo, Error, FileId, Loss, LossSink,
    Node, NodeId, NodeKind, Place, Region, Result, Storage, StorageId, TensorId,
};
use tensorferry_abi::abi_stable::std_types::{RSlice, RStr};
use tensorferry_abi::{self as abi, AbiLoss, AbiResult, CatalogSinkMut};

/// Blocks as numbers: storage, offset, origin, shape, strides.
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

/// The inverse of [`encode_blocks`] for a tensor of this rank.
pub(super) fn decode_blocks(rank: usize, numbers: &[u64]) -> Result<Vec<Block>> {
    let wrong = || Error::plugin("blocks are not of the tensor's rank");
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

pub(super) fn byte_order_number(order: ByteOrder) -> u32 {
    match order {
        ByteOrder::Little => 0,
        ByteOrder::Big => 1,
    }
}

pub(super) fn byte_order(number: u32) -> ByteOrder {
    if number == 1 { ByteOrder::Big } else { ByteOrder::Little }
}

pub(super) struct LentCatalogSink<'a>(pub(super) &'a mut dyn CatalogSink);

impl LentCatalogSink<'_> {
    fn storage(
        &mut self,
        place: Place,
        len: u64,
        order: u32,
        algorithm: u32,
        digest: &[u8],
    ) -> AbiResult<u32> {
        guard("catalog.storage", || {
            let digest = (algorithm != 0)
                .then(|| Digest { algorithm: DigestAlgorithm(algorithm), value: digest.to_vec() });
            self.0.storage(Storage { place, len, byte_order: byte_order(order), digest }).map(|id| id.0)
        })
    }
}

impl abi::CatalogSink for LentCatalogSink<'_> {
    fn file_storage(
        &mut self,
        file: u32,
        offset: u64,
        len: u64,
        order: u32,
        algorithm: u32,
        digest: RSlice<'_, u8>,
    ) -> AbiResult<u32> {
        self.storage(Place::File { file: FileId(file), offset }, len, order, algorithm, digest.as_slice())
    }

    fn encoded_storage(
        &mut self,
        handle: u64,
        len: u64,
        order: u32,
        algorithm: u32,
        digest: RSlice<'_, u8>,
    ) -> AbiResult<u32> {
        self.storage(Place::Encoded { handle }, len, order, algorithm, digest.as_slice())
    }

    fn inline_storage(
        &mut self,
        bytes: RSlice<'_, u8>,
        order: u32,
        algorithm: u32,
        digest: RSlice<'_, u8>,
    ) -> AbiResult<u32> {
        let bytes = bytes.as_slice().to_vec();
        let len = bytes.len() as u64;
        self.storage(Place::Inline(bytes.into()), len, order, algorithm, digest.as_slice())
    }

    fn dtype(
        &mut self,
        name: RStr<'_>,
        block_elements: u32,
        block_bytes: u32,
        swap_unit: u32,
    ) -> AbiResult<u32> {
        guard("catalog.dtype", || {
            let info = DtypeInfo::extension(name.as_str(), block_elements, block_bytes, swap_unit)?;
            self.0.dtype(&info).map(Dtype::id)
        })
    }

    fn tensor(
        &mut self,
        name: RStr<'_>,
        dtype: u32,
        shape: RSlice<'_, u64>,
        storage: u32,
        offset: u64,
    ) -> AbiResult<u32> {
        guard("catalog.tensor", || {
            let (dtype, storage) = (Dtype::from_id(dtype), StorageId(storage));
            self.0.tensor(name.as_str(), dtype, shape.as_slice(), storage, offset).map(|id| id.0)
        })
    }

    fn tensor_of_blocks(
        &mut self,
        name: RStr<'_>,
        dtype: u32,
        shape: RSlice<'_, u64>,
        blocks: RSlice<'_, u64>,
    ) -> AbiResult<u32> {
        guard("catalog.tensor_of_blocks", || {
            let blocks = decode_blocks(shape.len(), blocks.as_slice())?;
            let dtype = Dtype::from_id(dtype);
            self.0.tensor_of_blocks(name.as_str(), dtype, shape.as_slice(), blocks).map(|id| id.0)
        })
    }

    fn metadata(&mut self, key: RStr<'_>, value: RStr<'_>) -> AbiResult<()> {
        guard("catalog.metadata", || self.0.metadata(key.as_str(), value.as_str()))
    }

    fn node(
        &mut self,
        kind: u32,
        class: RStr<'_>,
        bytes: RSlice<'_, u8>,
        children: RSlice<'_, u32>,
    ) -> AbiResult<u32> {
        guard("catalog.node", || {
            let node = Node {
                kind: NodeKind(kind),
                class: class.as_str().into(),
                bytes: bytes.as_slice().into(),
                children: children.iter().copied().map(NodeId).collect(),
            };
            self.0.node(node).map(|id| id.0)
        })
    }

    fn root(&mut self, node: u32) -> AbiResult<()> {
        guard("catalog.root", || self.0.root(NodeId(node)))
    }

    fn loss(&mut self, loss: AbiLoss<'_>) -> AbiResult<()> {
        guard("catalog.loss", || self.0.loss(received_loss(loss)))
    }

    fn origin(&mut self, format: RStr<'_>) -> AbiResult<()> {
        guard("catalog.origin", || self.0.origin(format.as_str()))
    }

    fn global(&mut self, name: RStr<'_>) -> AbiResult<()> {
        guard("catalog.global", || self.0.global(name.as_str()))
    }

    fn label(&mut self, tensor: u32, key: RStr<'_>, value: RStr<'_>) -> AbiResult<()> {
        guard("catalog.label", || self.0.label(TensorId(tensor), key.as_str(), value.as_str()))
    }
}

pub(super) struct RemoteCatalogSink<'a>(pub(super) CatalogSinkMut<'a>);

impl LossSink for RemoteCatalogSink<'_> {
    fn loss(&mut self, loss: Loss) -> Result<()> {
        received(self.0.loss(sent_loss(&loss)))
    }
}

impl CatalogSink for RemoteCatalogSink<'_> {
    fn storage(&mut self, storage: Storage) -> Result<StorageId> {
        let order = byte_order_number(storage.byte_order);
        let (algorithm, digest) = storage.digest.map_or((0, Vec::new()), |d| (d.algorithm.0, d.value));
        let digest = digest.as_slice().into();
        let id = match &storage.place {
            Place::File { file, offset } => {
                self.0.file_storage(file.0, *offset, storage.len, order, algorithm, digest)
            }
            Place::Encoded { handle } => {
                self.0.encoded_storage(*handle, storage.len, order, algorithm, digest)
            }
            Place::Inline(bytes) => self.0.inline_storage(bytes.as_slice().into(), order, algorithm, digest),
            Place::Cast(_) => {
                return Err(Error::plugin("a reader describes bytes as they lie, and casts none"));
            }
        };
        received(id).map(StorageId)
    }

    fn dtype(&mut self, info: &DtypeInfo) -> Result<Dtype> {
        let (elements, bytes) = (info.block_elements(), info.block_bytes());
        received(self.0.dtype(info.name().into(), elements, bytes, info.swap_unit())).map(Dtype::from_id)
    }

    fn tensor(
        &mut self,
        name: &str,
        dtype: Dtype,
        shape: &[u64],
        storage: StorageId,
        offset: u64,
    ) -> Result<TensorId> {
        received(self.0.tensor(name.into(), dtype.id(), shape.into(), storage.0, offset)).map(TensorId)
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
            return Err(Error::plugin("a block is not of the tensor's rank").tensor(name));
        }
        let numbers = encode_blocks(&blocks);
        received(self.0.tensor_of_blocks(name.into(), dtype.id(), shape.into(), numbers.as_slice().into()))
            .map(TensorId)
    }

    fn metadata(&mut self, key: &str, value: &str) -> Result<()> {
        received(self.0.metadata(key.into(), value.into()))
    }

    fn node(&mut self, node: Node) -> Result<NodeId> {
        let children: Vec<u32> = node.children.iter().map(|child| child.0).collect();
        let bytes = (&*node.bytes).into();
        received(self.0.node(node.kind.0, (&*node.class).into(), bytes, children.as_slice().into()))
            .map(NodeId)
    }

    fn root(&mut self, root: NodeId) -> Result<()> {
        received(self.0.root(root.0))
    }

    fn origin(&mut self, format: &str) -> Result<()> {
        received(self.0.origin(format.into()))
    }

    fn global(&mut self, name: &str) -> Result<()> {
        received(self.0.global(name.into()))
    }

    fn label(&mut self, tensor: TensorId, key: &str, value: &str) -> Result<()> {
        received(self.0.label(tensor.0, key.into(), value.into()))
    }
}
