//! A view is a catalog as a writer sees it: the same facts, and the tensors' bytes on request.

use crate::{
    Block, ByteOrder, Catalog, Dtype, DtypeInfo, Error, Limits, Node, NodeId, Order, Result, StorageId,
    TensorId, TensorPart, Value, element_count,
};

/// How many blocks are asked for together: enough that the calls cost nothing, few enough to hold.
pub(crate) const BLOCKS_AT_ONCE: u64 = 1024;

/// A tensor as a writer sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorView<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its dtype; [`CatalogView::dtype_info`] knows those that the host does not.
    pub dtype: Dtype,
    /// Its dimensions, in elements.
    pub shape: &'a [u64],
    /// Its logical length in bytes.
    pub bytes: u64,
}

/// A storage as a writer sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageView {
    /// Its length in bytes.
    pub len: u64,
    /// The order of the numbers in it.
    pub byte_order: ByteOrder,
}

/// The catalog that a writer is to lay out.
pub trait CatalogView: Send + Sync {
    /// How many tensors there are; their ids count from 0.
    fn tensor_count(&self) -> u32;

    /// The tensor.
    ///
    /// # Panics
    /// If there is none of this id.
    fn tensor(&self, id: TensorId) -> TensorView<'_>;

    /// The facts of a dtype.
    ///
    /// # Errors
    /// A plugin error, if there is none of this id.
    fn dtype_info(&self, dtype: Dtype) -> Result<DtypeInfo>;

    /// The first tensor that is the same one by reference: itself, unless it is tied to another.
    fn tied_to(&self, id: TensorId) -> TensorId;

    /// The blocks that the tensor is made of, from number `from` on: `most` of them, or as many as there are. Most
    /// tensors have one, those without bytes none; an array of small chunks may have millions.
    ///
    /// # Errors
    /// A plugin error, if there is no such tensor.
    fn blocks(&self, id: TensorId, from: u64, most: u64) -> Result<Vec<Block>>;

    /// Gives each block of the tensor to `each`, in order, and holds few of them at once.
    ///
    /// # Errors
    /// A plugin error, if there is no such tensor; whatever `each` gives.
    fn each_block(&self, id: TensorId, each: &mut dyn FnMut(Block) -> Result<()>) -> Result<()> {
        let mut from = 0;
        loop {
            let blocks = self.blocks(id, from, BLOCKS_AT_ONCE)?;
            if blocks.is_empty() {
                return Ok(());
            }
            from += blocks.len() as u64;
            blocks.into_iter().try_for_each(&mut *each)?;
        }
    }

    /// All blocks of the tensor, for who needs them side by side.
    ///
    /// # Errors
    /// A plugin error, if there is no such tensor; a limit, if there are more than `limits` has entries.
    fn all_blocks(&self, id: TensorId, limits: &Limits) -> Result<Vec<Block>> {
        let mut all = Vec::new();
        self.each_block(id, &mut |block| {
            if all.len() as u64 >= limits.entries {
                return Err(Error::limit("too many blocks to hold at once")
                    .tensor(self.tensor(id).name)
                    .expected(format!("at most {}, or --bound entries=N", limits.entries)));
            }
            all.push(block);
            Ok(())
        })?;
        Ok(all)
    }

    /// How many storages there are; their ids count from 0.
    fn storage_count(&self) -> u32;

    /// The storage.
    ///
    /// # Errors
    /// A plugin error, if there is none of this id.
    fn storage(&self, id: StorageId) -> Result<StorageView>;

    /// The metadata, sorted by key. What is no text arrives at writers with
    /// [`Capabilities::VALUES`](crate::Capabilities::VALUES) alone; the others look at
    /// [`metadata_texts`](Self::metadata_texts).
    fn metadata(&self) -> Vec<(String, Value)>;

    /// The metadata as texts, sorted by key: compact JSON for what is none.
    fn metadata_texts(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_text().map_or_else(|| value.json(), str::to_owned);
        self.metadata().into_iter().map(|(key, value)| (key, text(&value))).collect()
    }

    /// The attributes of a tensor, sorted by key; for writers with
    /// [`Capabilities::ATTRIBUTES`](crate::Capabilities::ATTRIBUTES).
    ///
    /// # Errors
    /// A plugin error, if there is no such tensor.
    fn attributes(&self, id: TensorId) -> Result<Vec<(String, Value)>>;

    /// The root of the tree of non-tensor state, if there is one.
    fn root(&self) -> Option<NodeId>;

    /// A node of that tree.
    ///
    /// # Errors
    /// A plugin error, if there is none of this id.
    fn node(&self, id: NodeId) -> Result<Node>;

    /// The id of the format that the tensors and the tree came from; empty if a step gave the tree other keys.
    fn origin(&self) -> String;

    /// Fills `buffer` with a tensor's logical bytes (row-major, little-endian) from `offset`. For
    /// small tensors while planning; a streamed file reads all of them this way.
    ///
    /// # Errors
    /// A plugin error past the tensor's end; else whatever reading it gives.
    fn read(&self, id: TensorId, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Fills `buffer` with all bytes of a part of a tensor, in the order of elements and of bytes that the part
    /// asks for: what a writer of tiles encodes.
    ///
    /// # Errors
    /// A plugin error, if the tensor has no such part, or the buffer another length; unsupported, for elements that
    /// share bytes, unless all of them are asked for row-major; else whatever reading it gives.
    fn read_region(&self, part: &TensorPart, buffer: &mut [u8]) -> Result<()>;

    /// All tensors' ids.
    fn tensor_ids(&self) -> Box<dyn Iterator<Item = TensorId>> {
        Box::new((0..self.tensor_count()).map(TensorId))
    }
}

/// The length in bytes of a part of a tensor.
pub(crate) fn part_len(catalog: &dyn CatalogView, part: &TensorPart) -> Result<u64> {
    if part.tensor.0 >= catalog.tensor_count() {
        return Err(Error::plugin(format!("no tensor {}", part.tensor.0)));
    }
    let view = catalog.tensor(part.tensor);
    // By far the most, of a model with a hundred thousand of them.
    if part.region.is_none() && part.order == Order::C {
        return Ok(view.bytes);
    }
    let info = catalog.dtype_info(view.dtype)?;
    let named = |e: Error| Error::plugin(e.message()).tensor(view.name);
    let (is_whole, len) = match &part.region {
        None => (true, view.bytes),
        Some(region) => {
            region
                .check_inside(view.shape)
                .map_err(|e| named(e).expected(format!("inside {:?}", view.shape)))?;
            let len = element_count(&region.shape).and_then(|count| info.bytes_of(count));
            (region.is_whole(view.shape), len.map_err(named)?)
        }
    };
    let as_it_lies = is_whole && (part.order == Order::C || view.shape.len() < 2);
    if info.element_bytes().is_none() && !as_it_lies {
        let why = format!("{} is written whole and row-major", info.name());
        return Err(Error::unsupported(why).tensor(view.name));
    }
    Ok(len)
}

/// A catalog and the bytes of its tensors: a host that has these has a [`CatalogView`].
pub trait CatalogBytes: Send + Sync {
    /// The catalog.
    fn catalog(&self) -> &Catalog;

    /// What [`Catalog::ties`] gives, kept by whoever computed it.
    fn ties(&self) -> &[TensorId];

    /// As [`CatalogView::read`].
    fn read_tensor(&self, id: TensorId, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// As [`CatalogView::read_region`], of a part that the tensor has, into a buffer of its length.
    fn read_part(&self, part: &TensorPart, buffer: &mut [u8]) -> Result<()>;
}

impl<T: CatalogBytes> CatalogView for T {
    fn tensor_count(&self) -> u32 {
        u32::try_from(self.catalog().tensors().len()).unwrap_or(u32::MAX)
    }

    fn tensor(&self, id: TensorId) -> TensorView<'_> {
        let tensor = &self.catalog().tensors()[id.0 as usize];
        TensorView { name: &tensor.name, dtype: tensor.dtype, shape: &tensor.shape, bytes: tensor.bytes }
    }

    fn dtype_info(&self, dtype: Dtype) -> Result<DtypeInfo> {
        let info = self.catalog().dtype_info(dtype).cloned();
        info.ok_or_else(|| Error::plugin(format!("no dtype {}", dtype.id())))
    }

    fn tied_to(&self, id: TensorId) -> TensorId {
        self.ties().get(id.0 as usize).copied().unwrap_or(id)
    }

    fn blocks(&self, id: TensorId, from: u64, most: u64) -> Result<Vec<Block>> {
        let tensor = self.catalog().tensor(id);
        let tensor = tensor.ok_or_else(|| Error::plugin(format!("no tensor {}", id.0)))?;
        let end = from.saturating_add(most).min(tensor.block_count());
        Ok((from..end).filter_map(|number| tensor.block(number)).collect())
    }

    fn storage_count(&self) -> u32 {
        u32::try_from(self.catalog().storages().len()).unwrap_or(u32::MAX)
    }

    fn storage(&self, id: StorageId) -> Result<StorageView> {
        let storage = self.catalog().storage(id);
        let storage = storage.ok_or_else(|| Error::plugin(format!("no storage {}", id.0)))?;
        Ok(StorageView { len: storage.len, byte_order: storage.byte_order })
    }

    fn metadata(&self) -> Vec<(String, Value)> {
        self.catalog().metadata().iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    fn attributes(&self, id: TensorId) -> Result<Vec<(String, Value)>> {
        let tensor = self.catalog().tensor(id).ok_or_else(|| Error::plugin(format!("no tensor {}", id.0)))?;
        Ok(tensor.attributes.iter().map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    fn root(&self) -> Option<NodeId> {
        self.catalog().tree().root()
    }

    fn node(&self, id: NodeId) -> Result<Node> {
        let node = self.catalog().tree().get(id).cloned();
        node.ok_or_else(|| Error::plugin(format!("no node {}", id.0)))
    }

    fn origin(&self) -> String {
        self.catalog().origin().to_owned()
    }

    fn read(&self, id: TensorId, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read_tensor(id, offset, buffer)
    }

    fn read_region(&self, part: &TensorPart, buffer: &mut [u8]) -> Result<()> {
        let len = part_len(self, part)?;
        if len != buffer.len() as u64 {
            let name = self.tensor(part.tensor).name;
            return Err(Error::plugin("a buffer of another length than the region")
                .tensor(name)
                .expected(len)
                .found(buffer.len()));
        }
        self.read_part(part, buffer)
    }
}
