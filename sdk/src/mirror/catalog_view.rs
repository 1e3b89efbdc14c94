//! Passes a [`CatalogView`] across the boundary.

use super::catalog_sink::{decode_blocks, encode_blocks};
use super::collector::Collector;
use super::dtypes::Dtypes;
use super::failure::expect_infallible;
use super::nodes::{children, decode_node, encode_node};
use super::numbers::{byte_order, byte_order_number, order, order_number};
use super::region::{decode_region, encode_region};
use super::values::{ValueCollector, send_value};
use crate::view::MAX_BLOCKS_PER_CALL;
use crate::{
    Block, CatalogView, Dtype, DtypeInfo, Error, Node, NodeId, Result, StorageId, StorageView, TensorId,
    TensorPart, TensorView, Value,
};
use std::sync::{PoisonError, RwLock};
use tensorferry_abi::{
    Borrowed, CatalogViewCalls, CatalogViewTable, Failure, Handle, NameSinkTable, NodeFacts, NodeSinkCalls,
    NodeSinkTable, NumberSinkTable, RegionFacts, ValueSinkTable,
};

/// Represents a missing root of the tree.
const NONE: u32 = u32::MAX;

pub(super) struct LentCatalogView<'a>(pub(super) &'a dyn CatalogView);

impl LentCatalogView<'_> {
    fn checked(&self, id: u32) -> Result<TensorId, Failure> {
        if id < self.0.tensor_count() {
            Ok(TensorId(id))
        } else {
            Err(Error::plugin(format!("no tensor {id}")).into())
        }
    }
}

impl CatalogViewCalls for LentCatalogView<'_> {
    fn counts(&self) -> Result<(u32, u32, u32), Failure> {
        let root = self.0.root().map_or(NONE, |root| root.0);
        Ok((self.0.tensor_count(), self.0.storage_count(), root))
    }

    fn tensor(&self, id: u32) -> Result<(&str, u32, &[u64], u64, u32), Failure> {
        let id = self.checked(id)?;
        let tensor = self.0.tensor(id);
        Ok((tensor.name, tensor.dtype.id(), tensor.shape, tensor.bytes, self.0.tied_to(id).0))
    }

    fn blocks(
        &self,
        tensor: u32,
        from: u64,
        max: u64,
        blocks: Borrowed<'_, NumberSinkTable>,
    ) -> Result<(), Failure> {
        let tensor = self.checked(tensor)?;
        let end = from.saturating_add(max);
        let mut next = from;
        while next < end {
            let page = self.0.blocks(tensor, next, MAX_BLOCKS_PER_CALL.min(end - next))?;
            if page.is_empty() {
                break;
            }
            blocks.numbers(&encode_blocks(&page))?;
            next += page.len() as u64;
        }
        Ok(())
    }

    fn dtype(&self, id: u32, name: Borrowed<'_, NameSinkTable>) -> Result<(u32, u32, u32), Failure> {
        let info = self.0.dtype_info(Dtype::from_id(id))?;
        name.name(info.name())?;
        Ok((info.block_elements(), info.block_bytes(), info.swap_unit()))
    }

    fn storage(&self, id: u32) -> Result<(u64, u32), Failure> {
        let storage = self.0.storage(StorageId(id))?;
        Ok((storage.len, byte_order_number(storage.byte_order)))
    }

    fn metadata(&self, entries: Borrowed<'_, ValueSinkTable>) -> Result<(), Failure> {
        send_entries(&self.0.metadata(), &entries)
    }

    fn attributes(&self, tensor: u32, entries: Borrowed<'_, ValueSinkTable>) -> Result<(), Failure> {
        send_entries(&self.0.attributes(self.checked(tensor)?)?, &entries)
    }

    fn node(&self, id: u32, sink: Borrowed<'_, NodeSinkTable>) -> Result<(), Failure> {
        let node = self.0.node(NodeId(id))?;
        sink.node(encode_node(&node, &children(&node)))
    }

    fn origin(&self, name: Borrowed<'_, NameSinkTable>) -> Result<(), Failure> {
        name.name(&self.0.origin())
    }

    fn read(&self, tensor: u32, offset: u64, buffer: &mut [u8]) -> Result<(), Failure> {
        Ok(self.0.read(self.checked(tensor)?, offset, buffer)?)
    }

    fn read_region(&self, part: RegionFacts<'_>, buffer: &mut [u8]) -> Result<(), Failure> {
        let (tensor, region) = (TensorId(part.tensor), decode_region(part.is_region, part.region)?);
        let (order, byte_order) = (order(part.order)?, byte_order(part.byte_order)?);
        Ok(self.0.read_region(&TensorPart { tensor, region, order, byte_order }, buffer)?)
    }
}

fn send_entries(entries: &[(String, Value)], sink: &Handle<ValueSinkTable>) -> Result<(), Failure> {
    entries.iter().try_for_each(|(key, value)| sink.entry(key, send_value(value, |node| sink.value(node))?))
}

pub(super) struct RemoteCatalogView<'a> {
    object: &'a Handle<CatalogViewTable>,
    /// All tensors if they were fetched in advance. If the list is empty, tensors are fetched on
    /// request.
    tensors: Vec<(TensorView<'a>, TensorId)>,
    tensor_count: u32,
    storage_count: u32,
    root: Option<NodeId>,
    dtypes: RwLock<Dtypes>,
}

#[derive(Default)]
struct NodeCollector(Option<Node>);

impl NodeSinkCalls for NodeCollector {
    fn node(&mut self, node: NodeFacts<'_>) -> Result<(), Failure> {
        self.0 = Some(decode_node(&node));
        Ok(())
    }
}

impl<'a> RemoteCatalogView<'a> {
    pub(super) fn new(object: &'a Handle<CatalogViewTable>) -> Result<Self> {
        let (tensor_count, storage_count, root) = object.counts()?;
        let root = Some(root).filter(|&root| root != NONE).map(NodeId);
        let (tensors, dtypes) = (Vec::new(), RwLock::default());
        Ok(Self { object, tensors, tensor_count, storage_count, root, dtypes })
    }

    /// Creates a view that fetches all tensors in advance, for callers that use all tensors
    /// repeatedly.
    pub(super) fn whole(object: &'a Handle<CatalogViewTable>) -> Result<Self> {
        let mut view = Self::new(object)?;
        view.tensors = (0..view.tensor_count).map(|id| view.fetch(id)).collect::<Result<_>>()?;
        Ok(view)
    }

    fn fetch(&self, id: u32) -> Result<(TensorView<'a>, TensorId)> {
        let (name, dtype, shape, bytes, tied_to) = self.object.tensor(id)?;
        Ok((TensorView { name, dtype: self.dtype(dtype)?, shape, bytes }, TensorId(tied_to)))
    }

    fn tensor_and_tie(&self, id: TensorId) -> (TensorView<'a>, TensorId) {
        match self.tensors.get(id.0 as usize) {
            Some(known) => *known,
            None => expect_infallible(self.fetch(id.0).map_err(Failure::from)),
        }
    }

    /// Returns the dtype to which the host assigned this number.
    fn dtype(&self, number: u32) -> Result<Dtype> {
        if let Some(dtype) = self.dtypes.read().unwrap_or_else(PoisonError::into_inner).dtype(number) {
            return Ok(dtype);
        }
        let mut name = Collector::<String>::default();
        let (elements, bytes, swap_unit) = self.object.dtype(number, Borrowed::sink(&mut name))?;
        let info = DtypeInfo::extension(&name.0.concat(), elements, bytes, swap_unit)?;
        let mut dtypes = self.dtypes.write().unwrap_or_else(PoisonError::into_inner);
        match dtypes.dtype(number) {
            // Another thread has already added the dtype.
            Some(dtype) => Ok(dtype),
            None => dtypes.insert(number, info),
        }
    }
}

impl CatalogView for RemoteCatalogView<'_> {
    fn tensor_count(&self) -> u32 {
        self.tensor_count
    }

    fn tensor(&self, id: TensorId) -> TensorView<'_> {
        self.tensor_and_tie(id).0
    }

    fn dtype_info(&self, dtype: Dtype) -> Result<DtypeInfo> {
        self.dtypes.read().unwrap_or_else(PoisonError::into_inner).info(dtype)
    }

    fn tied_to(&self, id: TensorId) -> TensorId {
        self.tensor_and_tie(id).1
    }

    fn blocks(&self, id: TensorId, from: u64, max: u64) -> Result<Vec<Block>> {
        let mut numbers = Collector::<u64>::default();
        self.object.blocks(id.0, from, max, Borrowed::sink(&mut numbers))?;
        decode_blocks(self.tensor(id).shape.len(), &numbers.0)
    }

    fn storage_count(&self) -> u32 {
        self.storage_count
    }

    fn storage(&self, id: StorageId) -> Result<StorageView> {
        let (len, order) = self.object.storage(id.0)?;
        Ok(StorageView { len, byte_order: byte_order(order)? })
    }

    fn metadata(&self) -> Vec<(String, Value)> {
        let mut values = ValueCollector::default();
        expect_infallible(self.object.metadata(Borrowed::sink(&mut values)));
        values.entries
    }

    fn attributes(&self, id: TensorId) -> Result<Vec<(String, Value)>> {
        let mut values = ValueCollector::default();
        self.object.attributes(id.0, Borrowed::sink(&mut values))?;
        Ok(values.entries)
    }

    fn root(&self) -> Option<NodeId> {
        self.root
    }

    fn node(&self, id: NodeId) -> Result<Node> {
        let mut node = NodeCollector::default();
        self.object.node(id.0, Borrowed::sink(&mut node))?;
        node.0.ok_or_else(|| Error::plugin(format!("no node {}", id.0)))
    }

    fn origin(&self) -> String {
        let mut name = Collector::<String>::default();
        expect_infallible(self.object.origin(Borrowed::sink(&mut name)));
        name.0.concat()
    }

    fn read(&self, id: TensorId, offset: u64, buffer: &mut [u8]) -> Result<()> {
        Ok(self.object.read(id.0, offset, buffer)?)
    }

    fn read_region(&self, part: &TensorPart, buffer: &mut [u8]) -> Result<()> {
        let facts = RegionFacts {
            tensor: part.tensor.0,
            is_region: part.region.is_some(),
            region: &encode_region(part.region.as_ref()),
            order: order_number(part.order),
            byte_order: byte_order_number(part.byte_order),
        };
        Ok(self.object.read_region(facts, buffer)?)
    }
}
