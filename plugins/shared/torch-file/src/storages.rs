//! A storage is a range of bytes. Tensors are views of storages. The persistent ID of a storage
//! contains its key, its number of elements and its class. This module checks the persistent ID
//! against the file, and converts views to tensors of the catalog or to blocks of tensors.

use crate::Extent;
use crate::archive::Record;
use crate::decoding::Decoding;
use crate::dtype::TorchDtype;
use crate::lazy::{LazyView, Recipe, Signs, StoredView};
use crate::object_file::ObjectFile;
use crate::persistent_id::{PersistentId, StorageRange};
use crate::rebuild::View;
use std::collections::HashMap;
use tensorferry_sdk::{
    Block, ByteOrder, CatalogSink, Digest, Dtype, DtypeInfo, Error, Limits, Loss, LossKind, Region, Result,
    Storage, StorageId, TensorId, element_count, row_major_strides,
};

/// The result of looking up the location of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewLocation {
    /// The location of the view's bytes.
    Found(Location),
    /// The reason why the view cannot be converted.
    Lost(String),
}

/// The location of a view's elements in a catalog's storages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    pub dtype: Dtype,
    /// Shape in the catalog's elements.
    pub shape: Vec<u64>,
    /// The storage, and the byte offset of the first element in it; `None` if there are no
    /// elements.
    pub start: Option<(StorageId, u64)>,
    /// Strides that count elements; `None` if the elements are contiguous and row-major.
    pub strides: Option<Vec<i64>>,
}

impl Location {
    /// Returns a location without a storage. Such a location is for a tensor that has no bytes, or
    /// whose storage is set later.
    pub(crate) fn without_bytes(dtype: Dtype, shape: Vec<u64>) -> Self {
        Self { dtype, shape, start: None, strides: None }
    }

    /// Returns the single block that covers the whole view. Returns no blocks if the view has no
    /// elements.
    #[must_use]
    pub fn blocks(&self) -> Vec<Block> {
        let block = |(storage, offset)| Block {
            region: Region::whole(&self.shape),
            storage,
            offset,
            strides: self.strides.clone().unwrap_or_else(|| row_major_strides(&self.shape)),
        };
        self.start.map(block).into_iter().collect()
    }

    /// Adds the view to the catalog as a tensor.
    pub fn add(&self, catalog: &mut dyn CatalogSink, name: &str) -> Result<TensorId> {
        match (self.start, &self.strides) {
            (Some((storage, offset)), None) => catalog.tensor(name, self.dtype, &self.shape, storage, offset),
            _ => catalog.tensor_of_blocks(name, self.dtype, &self.shape, self.blocks()),
        }
    }
}

/// The storages of a catalog that a reader fills from one or more torch files.
#[derive(Debug)]
pub struct Storages<'l> {
    limits: &'l Limits,
    decoding: Decoding,
    /// Number of quantized tensors that were converted to floats.
    pub(crate) dequantized: u64,
    known: HashMap<Extent, DeclaredStorage>,
    /// Storages of the views whose bytes are computed. Equal views share a storage, so that tied
    /// tensors remain tied.
    lazy: HashMap<LazyView, StorageId>,
    handles: Vec<LazyView>,
    /// For each computed storage, the storages from which it is computed.
    made_from: HashMap<StorageId, Vec<StorageId>>,
    expanded_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct DeclaredStorage {
    id: StorageId,
    record: Record,
    /// Size in bytes of the units whose bytes are reversed if the file is big-endian.
    swap_unit: u32,
}

impl<'l> Storages<'l> {
    #[must_use]
    pub fn new(limits: &'l Limits) -> Self {
        Self {
            limits,
            decoding: Decoding::default(),
            dequantized: 0,
            known: HashMap::new(),
            lazy: HashMap::new(),
            handles: Vec::new(),
            made_from: HashMap::new(),
            expanded_bytes: 0,
        }
    }

    /// Sets how quantized and sparse tensors are read.
    #[must_use]
    pub fn decoding(self, decoding: Decoding) -> Self {
        Self { decoding, ..self }
    }

    /// Returns the loss for quantized tensors that were converted to floats, if there are any.
    #[must_use]
    pub fn dequantized_loss(&self) -> Option<Loss> {
        let to = self.decoding.dequantize.filter(|_| self.dequantized > 0)?.info()?.name();
        let why = format!(
            "dequantized to {to}: the values that torch computes, without the integers, scales and zero points"
        );
        Some(
            Loss::new(LossKind::Precision, format!("{} quantized tensors", self.dequantized), why)
                .requested_by_user(),
        )
    }

    /// Returns the settings for reading quantized and sparse tensors.
    pub(crate) fn chosen_decoding(&self) -> Decoding {
        self.decoding
    }

    pub(crate) fn limits(&self) -> &'l Limits {
        self.limits
    }

    /// Returns the views whose bytes a decoder must compute. The index of a view is the handle of
    /// its storage.
    #[must_use]
    pub fn into_lazy_views(self) -> Vec<LazyView> {
        self.handles
    }

    /// Returns the location of a view in `object`. Declares the storage of the view in the catalog
    /// on first use. Fails if the storage is missing or has an unexpected length, or if the view
    /// extends past the end of the storage.
    pub fn locate(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        view: &View,
    ) -> Result<ViewLocation> {
        match self.resolve(catalog, object, view)? {
            Ok(resolved) if resolved.row.quantized => {
                Ok(ViewLocation::Lost("it is a quantized tensor without scales".to_owned()))
            }
            Ok(resolved) if resolved.extent > 0 && (view.conjugate || view.negative) => {
                self.locate_signs(catalog, &resolved, view)
            }
            Ok(resolved) => Ok(resolved.locate(view)),
            Err(why) => Ok(ViewLocation::Lost(why)),
        }
    }

    /// Works like [`locate`](Self::locate), but returns the location of a quantized tensor's
    /// integers.
    pub(crate) fn locate_integers(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        view: &View,
    ) -> Result<ViewLocation> {
        Ok(match self.resolve(catalog, object, view)? {
            Ok(resolved) if resolved.row.quantized => resolved.locate(view),
            Ok(resolved) => ViewLocation::Lost(format!("its dtype {} is not quantized", resolved.row.name)),
            Err(why) => ViewLocation::Lost(why),
        })
    }

    /// Returns the location of a tensor whose `len` bytes are computed from other storages.
    /// Declares the storage for these bytes on first use.
    pub(crate) fn add_computed(
        &mut self,
        catalog: &mut dyn CatalogSink,
        recipe: Recipe,
        location: Location,
        len: u64,
        stored: u64,
        from: Vec<StorageId>,
    ) -> Result<ViewLocation> {
        let at = |id| Ok(ViewLocation::Found(Location { start: Some((id, 0)), ..location.clone() }));
        if len == 0 {
            return Ok(ViewLocation::Found(location));
        }
        let view = LazyView(recipe);
        if let Some(&id) = self.lazy.get(&view) {
            return at(id);
        }
        // The host limits the total expansion of views of stored bytes. The host cannot determine
        // the expansion of computed views, so this function limits that expansion.
        self.expanded_bytes = self.expanded_bytes.saturating_add(len.saturating_sub(stored));
        if self.expanded_bytes > self.limits.expanded_bytes {
            return Err(Error::limit("tensors expand to far more bytes than are stored")
                .hint("raise the limit with --limit expanded_bytes=N")
                .expected(format!("at most {} bytes more", self.limits.expanded_bytes))
                .found(self.expanded_bytes));
        }
        let id = catalog.storage(Storage::encoded(self.handles.len() as u64, len))?;
        self.lazy.insert(view.clone(), id);
        self.handles.push(view);
        self.made_from.insert(id, from);
        at(id)
    }

    /// Returns the storages from which this storage is computed. Returns an empty list if the
    /// storage is not computed.
    pub(crate) fn made_from(&self, id: StorageId) -> &[StorageId] {
        self.made_from.get(&id).map_or(&[], Vec::as_slice)
    }

    fn locate_signs(
        &mut self,
        catalog: &mut dyn CatalogSink,
        resolved: &ResolvedView,
        view: &View,
    ) -> Result<ViewLocation> {
        let signs =
            Signs { stored: resolved.stored_view(view), conjugate: view.conjugate, negative: view.negative };
        let len = match signs.check() {
            Ok(len) => len,
            Err(why) => return Ok(ViewLocation::Lost(why)),
        };
        let location = Location::without_bytes(resolved.row.dtype, resolved.shape.clone());
        self.add_computed(
            catalog,
            Recipe::Signs(signs),
            location,
            len,
            resolved.extent,
            vec![resolved.storage.id],
        )
    }

    /// Returns a view together with its storage, after checking that the view is inside the
    /// storage. If the view cannot be converted, returns the reason.
    pub(crate) fn resolve(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        view: &View,
    ) -> Result<Result<ResolvedView, String>> {
        let named = match PersistentId::of(object.graph(), view.storage)? {
            Ok(named) => named,
            Err(why) => return Ok(Err(why)),
        };
        if named.location == "meta" {
            return Ok(Err("it is on the meta device, and has no data".to_owned()));
        }
        let row = view.dtype.or(named.dtype).or_else(|| TorchDtype::of(Dtype::U8));
        let Some((row, info)) = row.and_then(|row| Some((row, row.dtype.info()?))) else {
            return Ok(Err("its dtype is unknown".to_owned()));
        };
        let storage = self.storage(catalog, object, &named, info)?;
        let shape = row
            .logical_shape(&view.size)
            .ok_or_else(|| Error::malformed("the shape does not fit in 64 bits"))?;
        let part = named.part(storage.record.extent.len)?;
        let extent = if element_count(&shape)? == 0 { 0 } else { check_inside(view, row, part.len)? };
        Ok(Ok(ResolvedView { row, info, byte_order: object.byte_order(), storage, part, shape, extent }))
    }

    /// Returns a storage, and declares it in the catalog on first use.
    fn storage(
        &mut self,
        catalog: &mut dyn CatalogSink,
        object: &ObjectFile,
        named: &PersistentId<'_>,
        tensor: &DtypeInfo,
    ) -> Result<DeclaredStorage> {
        let swap_unit = swap_unit(object, named, tensor)?;
        let record = object.storage(named.key)?;
        let known = match self.known.get(&record.extent) {
            Some(&known) => known,
            None => {
                let Extent { file, offset, len } = record.extent;
                let mut storage = Storage::file(file, offset, len).byte_order(object.byte_order());
                if let Some(crc) = record.crc {
                    storage = storage.digest(Digest::crc32(crc));
                }
                let known = DeclaredStorage { id: catalog.storage(storage)?, record, swap_unit };
                self.known.insert(record.extent, known);
                known
            }
        };
        if named.bytes()? != record.extent.len {
            let error = Error::malformed(format!("storage {:?} has the wrong length", named.key));
            return Err(object
                .at(error, record.extent.offset)
                .expected(format!("{} elements of {} bytes", named.len, named.element_bytes()))
                .found(format!("{} bytes", record.extent.len)));
        }
        if known.swap_unit != swap_unit {
            return Err(ambiguous(named.key));
        }
        Ok(known)
    }
}

/// A view, with its storage and the properties that are needed to read it.
#[derive(Debug)]
pub(crate) struct ResolvedView {
    pub(crate) row: &'static TorchDtype,
    info: &'static DtypeInfo,
    byte_order: ByteOrder,
    storage: DeclaredStorage,
    part: StorageRange,
    /// Shape in catalog elements.
    pub(crate) shape: Vec<u64>,
    /// Number of bytes that the view spans in the storage; 0 if it has no elements.
    pub(crate) extent: u64,
}

impl ResolvedView {
    /// Returns the ID of the storage in the catalog.
    pub(crate) fn storage(&self) -> StorageId {
        self.storage.id
    }

    /// Returns the view in the form that the plugin reads. If several elements share a byte, the
    /// result is a view of the bytes. In this case, the elements must be contiguous.
    pub(crate) fn stored_view(&self, view: &View) -> StoredView {
        let record = self.part.of(self.storage.record);
        let stored = StoredView {
            record,
            byte_order: self.byte_order,
            dtype: self.row.dtype,
            offset: view.offset,
            size: view.size.clone(),
            stride: view.stride.clone(),
        };
        if self.info.block_elements() == 1 {
            return stored;
        }
        let offset = view.offset / elements_per_unit(self.row);
        StoredView { dtype: Dtype::U8, offset, size: vec![self.extent], stride: vec![1], ..stored }
    }

    /// Returns whether the view consists of whole bytes. If several elements share a byte, the view
    /// must be contiguous and start at the first element of a byte.
    pub(crate) fn has_whole_bytes(&self, view: &View) -> bool {
        let from_the_first = view.offset.is_multiple_of(elements_per_unit(self.row));
        self.info.block_elements() == 1 || (from_the_first && is_row_major(&view.size, &view.stride))
    }

    fn locate(self, view: &View) -> ViewLocation {
        if self.extent > 0 && !self.has_whole_bytes(view) {
            return ViewLocation::Lost(format!("it is a strided view of packed {}", self.info.name()));
        }
        let Self { row, info, storage, part, shape, extent, .. } = self;
        let location = Location::without_bytes(row.dtype, shape);
        if extent == 0 {
            return ViewLocation::Found(location);
        }
        let elements = element_count(&location.shape).unwrap_or(0);
        if !elements.is_multiple_of(info.block_elements().into()) {
            return ViewLocation::Lost(format!(
                "{elements} elements of {} do not fill whole bytes",
                info.name()
            ));
        }
        let start = part.offset + view.offset / elements_per_unit(row) * u64::from(row.element_bytes);
        let is_row_major = is_row_major(&view.size, &view.stride);
        let strides = view.stride.iter().map(|&stride| i64::try_from(stride).unwrap_or(i64::MAX)).collect();
        let strides = if is_row_major { None } else { Some(strides) };
        ViewLocation::Found(Location { start: Some((storage.id, start)), strides, ..location })
    }
}

/// Returns the number of torch elements in `element_bytes` bytes. In torch, the shapes of packed
/// quantized dtypes count the individual elements, but the shapes of other packed dtypes count
/// bytes.
fn elements_per_unit(row: &TorchDtype) -> u64 {
    let elements = row.dtype.info().map_or(1, DtypeInfo::block_elements);
    if row.quantized { elements.into() } else { 1 }
}

/// Returns the size in bytes of the units whose bytes must be reversed. In a big-endian archive,
/// torch uses the element size of the storage's dtype, and does not reverse the bytes of untyped
/// storages. Fails if the tensor's dtype requires units of a different size, because the byte order
/// is then ambiguous.
fn swap_unit(object: &ObjectFile, named: &PersistentId<'_>, tensor: &DtypeInfo) -> Result<u32> {
    if object.byte_order() == ByteOrder::Little {
        return Ok(1);
    }
    let stored = named.dtype.and_then(|row| row.dtype.info()).map_or(1, DtypeInfo::swap_unit);
    if stored == tensor.swap_unit() { Ok(stored) } else { Err(ambiguous(named.key)) }
}

fn ambiguous(key: &str) -> Error {
    Error::unsupported(format!(
        "the archive is big-endian, and storage {key:?} is read with a different dtype: its byte order is ambiguous"
    ))
}

/// Checks that a view is inside its storage, and returns the number of bytes that the view spans.
fn check_inside(view: &View, row: &TorchDtype, storage_len: u64) -> Result<u64> {
    let mut reach = Some(1_u64);
    for (&size, &stride) in view.size.iter().zip(&view.stride) {
        reach = reach.and_then(|reach| reach.checked_add((size - 1).checked_mul(stride)?));
    }
    let (width, unit) = (u64::from(row.element_bytes), elements_per_unit(row));
    let bytes = reach.and_then(|reach| reach.div_ceil(unit).checked_mul(width));
    let end = reach.and_then(|reach| reach.checked_add(view.offset)?.div_ceil(unit).checked_mul(width));
    match (bytes, end) {
        (Some(bytes), Some(end)) if end <= storage_len => Ok(bytes),
        _ => Err(Error::malformed("a view reaches past the end of its storage")
            .expected(format!("at most {} elements", storage_len / width * unit))
            .found(format!("size {:?}, stride {:?}, offset {}", view.size, view.stride, view.offset))),
    }
}

/// Returns whether the elements are contiguous and row-major. The stride of a dimension of length 1
/// does not matter.
fn is_row_major(size: &[u64], stride: &[u64]) -> bool {
    let mut plain = 1_u64;
    for (&size, &stride) in size.iter().zip(stride).rev() {
        if size != 1 {
            if stride != plain {
                return false;
            }
            plain = plain.saturating_mul(size);
        }
    }
    true
}
