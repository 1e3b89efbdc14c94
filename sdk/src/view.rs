//! A view presents a catalog to a writer. The view provides the contents of the catalog, and
//! returns the bytes of tensors on request.

use crate::{
    Block, ByteOrder, Catalog, Dtype, DtypeInfo, Error, Limits, Node, NodeId, Order, Result, StorageId,
    TensorId, TensorPart, Value, element_count,
};

/// Maximum number of blocks per request. A larger maximum would need too much memory, and a smaller
/// one would need too many calls.
pub(crate) const MAX_BLOCKS_PER_CALL: u64 = 1024;

/// A tensor, as presented to a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorView<'a> {
    /// Name of the tensor.
    pub name: &'a str,
    /// Dtype of the tensor. [`CatalogView::dtype_info`] also describes dtypes that are not built
    /// in.
    pub dtype: Dtype,
    /// Dimensions, in elements.
    pub shape: &'a [u64],
    /// Length in bytes of the tensor in contiguous, row-major form.
    pub bytes: u64,
}

/// A storage, as presented to a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageView {
    /// Length in bytes.
    pub len: u64,
    /// Byte order of the numbers in the storage.
    pub byte_order: ByteOrder,
}

/// The catalog for which a writer plans an output.
pub trait CatalogView: Send + Sync {
    /// Returns the number of tensors. Tensor ids count from 0.
    fn tensor_count(&self) -> u32;

    /// Returns the tensor with this id.
    ///
    /// # Panics
    /// Panics if the tensor does not exist.
    fn tensor(&self, id: TensorId) -> TensorView<'_>;

    /// Returns the properties of a dtype.
    ///
    /// # Errors
    /// Returns a plugin error if the dtype does not exist.
    fn dtype_info(&self, dtype: Dtype) -> Result<DtypeInfo>;

    /// Returns the first tensor that refers to the same bytes. If the tensor is not tied to another
    /// tensor, the result is the tensor itself.
    fn tied_to(&self, id: TensorId) -> TensorId;

    /// Returns up to `max` blocks of a tensor, starting with block number `from`. Most tensors have
    /// one block, tensors without bytes have no blocks, and an array of small chunks may have
    /// millions.
    ///
    /// # Errors
    /// Returns a plugin error if the tensor does not exist.
    fn blocks(&self, id: TensorId, from: u64, max: u64) -> Result<Vec<Block>>;

    /// Calls `each` for each block of the tensor, in order. Only a few blocks are in memory at the
    /// same time.
    ///
    /// # Errors
    /// Returns a plugin error if the tensor does not exist, or the first error of `each`.
    fn each_block(&self, id: TensorId, each: &mut dyn FnMut(Block) -> Result<()>) -> Result<()> {
        let mut from = 0;
        loop {
            let blocks = self.blocks(id, from, MAX_BLOCKS_PER_CALL)?;
            if blocks.is_empty() {
                return Ok(());
            }
            from += blocks.len() as u64;
            blocks.into_iter().try_for_each(&mut *each)?;
        }
    }

    /// Returns all blocks of the tensor in one list.
    ///
    /// # Errors
    /// Returns a plugin error if the tensor does not exist, or a limit error if it has more blocks
    /// than [`Limits::entries`].
    fn all_blocks(&self, id: TensorId, limits: &Limits) -> Result<Vec<Block>> {
        let mut all = Vec::new();
        self.each_block(id, &mut |block| {
            if all.len() as u64 >= limits.entries {
                return Err(Error::limit("too many blocks to hold at once")
                    .tensor(self.tensor(id).name)
                    .expected(format!("at most {}", limits.entries))
                    .hint("if you trust the file, raise the limit with --limit entries=N"));
            }
            all.push(block);
            Ok(())
        })?;
        Ok(all)
    }

    /// Returns the number of storages. Storage ids count from 0.
    fn storage_count(&self) -> u32;

    /// Returns the storage with this id.
    ///
    /// # Errors
    /// Returns a plugin error if the storage does not exist.
    fn storage(&self, id: StorageId) -> Result<StorageView>;

    /// Returns the metadata, sorted by key. Only writers with
    /// [`Capabilities::VALUES`](crate::Capabilities::VALUES) receive values that are not text.
    /// Other writers use [`metadata_texts`](Self::metadata_texts).
    fn metadata(&self) -> Vec<(String, Value)>;

    /// Returns the metadata as strings, sorted by key. Values that are not text are converted to
    /// compact JSON.
    fn metadata_texts(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_text().map_or_else(|| value.json(), str::to_owned);
        self.metadata().into_iter().map(|(key, value)| (key, text(&value))).collect()
    }

    /// Returns the attributes of a tensor, sorted by key. This function is meant for writers with
    /// [`Capabilities::ATTRIBUTES`](crate::Capabilities::ATTRIBUTES).
    ///
    /// # Errors
    /// Returns a plugin error if the tensor does not exist.
    fn attributes(&self, id: TensorId) -> Result<Vec<(String, Value)>>;

    /// Returns the root of the tree of non-tensor state, or `None` if there is no tree.
    fn root(&self) -> Option<NodeId>;

    /// Returns the node of the tree with this id.
    ///
    /// # Errors
    /// Returns a plugin error if the node does not exist.
    fn node(&self, id: NodeId) -> Result<Node>;

    /// Returns the id of the format from which the tensors and the tree were read. The id is empty
    /// if a step changed the keys of the tree.
    fn origin(&self) -> String;

    /// Fills `buffer` with a tensor's bytes in row-major, little-endian form, starting at `offset`.
    /// Use this function for small tensors while planning. A plan that streams a file reads all of
    /// its tensors with this function.
    ///
    /// # Errors
    /// Returns a plugin error if the range extends past the end of the tensor, or an error if the
    /// tensor cannot be read.
    fn read(&self, id: TensorId, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Fills `buffer` with all bytes of a tensor part, in the part's element order and byte order.
    /// Writers that encode tiles use this function.
    ///
    /// # Errors
    /// Returns a plugin error if the tensor does not contain the part, or if the buffer has the
    /// wrong length. If elements share bytes, returns an unsupported error unless the whole tensor
    /// is requested in row-major order. Returns an error if the tensor cannot be read.
    fn read_region(&self, part: &TensorPart, buffer: &mut [u8]) -> Result<()>;

    /// Iterates over the ids of all tensors.
    fn tensor_ids(&self) -> Box<dyn Iterator<Item = TensorId>> {
        Box::new((0..self.tensor_count()).map(TensorId))
    }
}

/// Returns the length of a tensor part in bytes.
pub(crate) fn part_len(catalog: &dyn CatalogView, part: &TensorPart) -> Result<u64> {
    if part.tensor.0 >= catalog.tensor_count() {
        return Err(Error::plugin(format!("no tensor {}", part.tensor.0)));
    }
    let view = catalog.tensor(part.tensor);
    // Almost all tensors take this fast path. A model may have a hundred thousand tensors.
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
        let why = format!("{} can only be written whole and row-major", info.name());
        return Err(Error::unsupported(why).tensor(view.name));
    }
    Ok(len)
}

/// Provides a catalog and the bytes of its tensors. Any type that implements this trait is also a
/// [`CatalogView`].
pub trait CatalogBytes: Send + Sync {
    /// Returns the catalog.
    fn catalog(&self) -> &Catalog;

    /// Returns the result of [`Catalog::ties`], which is cached.
    fn ties(&self) -> &[TensorId];

    /// Reads bytes like [`CatalogView::read`].
    fn read_tensor(&self, id: TensorId, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Reads bytes like [`CatalogView::read_region`]. The caller has already checked the part and
    /// the length of the buffer.
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

    fn blocks(&self, id: TensorId, from: u64, max: u64) -> Result<Vec<Block>> {
        let tensor = self.catalog().tensor(id);
        let tensor = tensor.ok_or_else(|| Error::plugin(format!("no tensor {}", id.0)))?;
        let end = from.saturating_add(max).min(tensor.block_count());
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
            return Err(Error::plugin("the length of the buffer differs from the region")
                .tensor(name)
                .expected(len)
                .found(buffer.len()));
        }
        self.read_part(part, buffer)
    }
}
