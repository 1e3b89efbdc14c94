//! [`CatalogView`] across the boundary.

use super::catalog_sink::{byte_order, byte_order_number, decode_blocks, encode_blocks};
use super::guard::{guard, guard_or, pairs, received};
use crate::{
    Block, CatalogView, Dtype, DtypeInfo, Error, Node, NodeId, NodeKind, Result, StorageId, StorageView,
    TensorId, TensorView,
};
use tensorferry_abi::abi_stable::std_types::{RSlice, RSliceMut, RStr, RString, RVec, Tuple2};
use tensorferry_abi::{self as abi, AbiResult, CatalogViewRef};

pub(super) struct LentCatalogView<'a>(pub(super) &'a dyn CatalogView);

impl LentCatalogView<'_> {
    fn tensor(&self, id: u32) -> TensorView<'_> {
        if id < self.0.tensor_count() {
            self.0.tensor(TensorId(id))
        } else {
            TensorView { name: "", dtype: Dtype::from_id(0), shape: &[], bytes: 0 }
        }
    }

    fn node(&self, id: u32) -> Option<Node> {
        self.0.node(NodeId(id)).ok()
    }
}

impl abi::CatalogView for LentCatalogView<'_> {
    fn tensor_count(&self) -> u32 {
        self.0.tensor_count()
    }

    fn tensor_name(&self, id: u32) -> RStr<'_> {
        self.tensor(id).name.into()
    }

    fn tensor_dtype(&self, id: u32) -> u32 {
        self.tensor(id).dtype.id()
    }

    fn tensor_shape(&self, id: u32) -> RSlice<'_, u64> {
        self.tensor(id).shape.into()
    }

    fn tensor_bytes(&self, id: u32) -> u64 {
        self.tensor(id).bytes
    }

    fn tied_to(&self, id: u32) -> u32 {
        guard_or(u32::MAX, || self.0.tied_to(TensorId(id)).0)
    }

    fn blocks(&self, id: u32) -> RVec<u64> {
        guard_or(RVec::new(), || encode_blocks(&self.0.blocks(TensorId(id))).into())
    }

    fn dtype_name(&self, dtype: u32) -> RString {
        let info = self.0.dtype_info(Dtype::from_id(dtype));
        info.map(|info| info.name().into()).unwrap_or_default()
    }

    fn dtype_numbers(&self, dtype: u32) -> RVec<u32> {
        let info = self.0.dtype_info(Dtype::from_id(dtype));
        info.map(|i| vec![i.block_elements(), i.block_bytes(), i.swap_unit()].into()).unwrap_or_default()
    }

    fn storage_count(&self) -> u32 {
        self.0.storage_count()
    }

    fn storage_len(&self, id: u32) -> AbiResult<u64> {
        guard("catalog.storage", || self.0.storage(StorageId(id)).map(|storage| storage.len))
    }

    fn storage_byte_order(&self, id: u32) -> u32 {
        self.0.storage(StorageId(id)).map_or(0, |storage| byte_order_number(storage.byte_order))
    }

    fn metadata(&self) -> RVec<Tuple2<RString, RString>> {
        let metadata = self.0.metadata();
        pairs(metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    }

    fn root(&self) -> u32 {
        self.0.root().map_or(u32::MAX, |root| root.0)
    }

    fn node_kind(&self, id: u32) -> AbiResult<u32> {
        guard("catalog.node", || self.0.node(NodeId(id)).map(|node| node.kind.0))
    }

    fn node_class(&self, id: u32) -> RString {
        self.node(id).map(|node| (&*node.class).into()).unwrap_or_default()
    }

    fn node_bytes(&self, id: u32) -> RVec<u8> {
        self.node(id).map(|node| node.bytes.into_vec().into()).unwrap_or_default()
    }

    fn node_children(&self, id: u32) -> RVec<u32> {
        self.node(id).map(|node| node.children.iter().map(|child| child.0).collect()).unwrap_or_default()
    }

    fn origin(&self) -> RString {
        self.0.origin().into()
    }

    fn read(&self, id: u32, offset: u64, mut buffer: RSliceMut<'_, u8>) -> AbiResult<()> {
        guard("catalog.read", || self.0.read(TensorId(id), offset, buffer.as_mut_slice()))
    }
}

pub(super) struct RemoteCatalogView<'a>(pub(super) CatalogViewRef<'a>);

impl CatalogView for RemoteCatalogView<'_> {
    fn tensor_count(&self) -> u32 {
        self.0.tensor_count()
    }

    fn tensor(&self, id: TensorId) -> TensorView<'_> {
        assert!(id.0 < self.0.tensor_count(), "no tensor {}", id.0);
        TensorView {
            name: self.0.tensor_name(id.0).as_str(),
            dtype: Dtype::from_id(self.0.tensor_dtype(id.0)),
            shape: self.0.tensor_shape(id.0).as_slice(),
            bytes: self.0.tensor_bytes(id.0),
        }
    }

    fn dtype_info(&self, dtype: Dtype) -> Result<DtypeInfo> {
        if let Some(info) = dtype.info() {
            return Ok(info.clone());
        }
        let name = self.0.dtype_name(dtype.id());
        match self.0.dtype_numbers(dtype.id()).as_slice() {
            &[elements, bytes, swap] => DtypeInfo::extension(&name, elements, bytes, swap),
            _ => Err(Error::plugin(format!("no dtype {}", dtype.id()))),
        }
    }

    fn tied_to(&self, id: TensorId) -> TensorId {
        TensorId(self.0.tied_to(id.0))
    }

    fn blocks(&self, id: TensorId) -> Vec<Block> {
        decode_blocks(self.0.tensor_shape(id.0).len(), &self.0.blocks(id.0)).unwrap_or_default()
    }

    fn storage_count(&self) -> u32 {
        self.0.storage_count()
    }

    fn storage(&self, id: StorageId) -> Result<StorageView> {
        let len = received(self.0.storage_len(id.0))?;
        Ok(StorageView { len, byte_order: byte_order(self.0.storage_byte_order(id.0)) })
    }

    fn metadata(&self) -> Vec<(String, String)> {
        let metadata = self.0.metadata().into_iter();
        metadata.map(|Tuple2(key, value)| (key.into_string(), value.into_string())).collect()
    }

    fn root(&self) -> Option<NodeId> {
        Some(self.0.root()).filter(|&root| root != u32::MAX).map(NodeId)
    }

    fn node(&self, id: NodeId) -> Result<Node> {
        Ok(Node {
            kind: NodeKind(received(self.0.node_kind(id.0))?),
            class: self.0.node_class(id.0).as_str().into(),
            bytes: self.0.node_bytes(id.0).as_slice().into(),
            children: self.0.node_children(id.0).iter().copied().map(NodeId).collect(),
        })
    }

    fn origin(&self) -> String {
        self.0.origin().into_string()
    }

    fn read(&self, id: TensorId, offset: u64, buffer: &mut [u8]) -> Result<()> {
        received(self.0.read(id.0, offset, buffer.into()))
    }
}
