//! Plans the storage records of an output. A record contains the bytes of one tensor and the
//! tensors tied to it. If several tensors are overlapping views of one source storage, a record
//! contains the bytes of all of them.
//!
//! A tensor that does not overlap another tensor is written in row-major order, regardless of its
//! strides in the source. For overlapping views, the byte range that they cover is written once,
//! unchanged, and each view keeps its offset and strides. If torch cannot represent the views, they
//! are written separately, and a loss of kind `alias` is reported.

use super::FileFormat;
use super::composite::CompositeParts;
use std::collections::HashMap;
use std::ops::Range;
use tensorferry_sdk::{
    Block, ByteOrder, CatalogView, Context, Dtype, LayoutSink, Loss, LossKind, OutputId, Result, StorageId,
    TensorId, TensorPart, TensorView,
};
use tensorferry_torch_file::{TorchDtype, contiguous_strides};

/// Maximum length of a byte range that several tensors share, as a multiple of the total length of
/// these tensors.
const MAX_SHARED_RANGE_RATIO: u64 = 2;

/// The content of each storage record, and the location of each tensor in the records.
pub(super) struct StoragePlan {
    pub(super) format: FileFormat,
    /// The storage records. The index of a record is its key in the output.
    pub(super) records: Vec<StorageRecord>,
    /// Location of each tensor; `None` if the tensor is omitted.
    pub(super) places: Vec<Option<TensorLocation>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StorageRecord {
    /// Length in bytes.
    pub(super) len: u64,
    /// Number of bytes per element of the storage class, or 1 if the storage has no class.
    element_bytes: u64,
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Empty,
    Tensor(TensorId),
    Range { storage: StorageId, offset: u64, swap_unit: u32 },
}

/// Location of a tensor in the records. All numbers except `key` count torch elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TensorLocation {
    pub(super) dtype: &'static TorchDtype,
    /// Index of the record that contains the tensor.
    pub(super) key: usize,
    /// Index of the tensor's first element in the record.
    pub(super) offset: i64,
    pub(super) shape: Vec<i64>,
    pub(super) strides: Vec<i64>,
}

impl StoragePlan {
    /// Assigns a location to each tensor. Reports the tensors that are omitted, and the overlapping
    /// views that are written separately.
    pub(super) fn plan(
        format: FileFormat,
        catalog: &dyn CatalogView,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Self> {
        let mut carried: Vec<Option<StorableTensor>> = Vec::new();
        let declared = CompositeParts::of(catalog)?;
        for id in catalog.tensor_ids() {
            let view = catalog.tensor(id);
            let planned = match format {
                FileFormat::Zip => StorableTensor::of(view, declared.integers.contains(&id)),
                // The pickle contains the values of these tensors, so they need no storage. torch
                // fails to load a stream with a storage that no tensor refers to.
                FileFormat::Legacy if declared.shapes.contains(&id) => {
                    Err("it is kept only as the size of its sparse tensor; -o format=zip keeps the tensor"
                        .to_owned())
                }
                FileFormat::Legacy if declared.scales.contains(&id) => {
                    Err("it belongs to a quantized tensor; -o format=zip keeps it".to_owned())
                }
                FileFormat::Legacy => StorableTensor::of(view, false),
            };
            match planned {
                Ok(tensor) => carried.push(Some(tensor)),
                Err(why) => {
                    layout.omit(id, &omit_reason(catalog, view, &why)?)?;
                    carried.push(None);
                }
            }
        }
        context.check_cancelled()?;
        let shared = shared_ranges(catalog, &carried, layout)?;
        context.check_cancelled()?;

        let mut storages = Self { format, records: Vec::new(), places: Vec::with_capacity(carried.len()) };
        let mut keys: HashMap<RecordKey, usize> = HashMap::new();
        for (id, tensor) in catalog.tensor_ids().zip(carried) {
            let Some(StorableTensor { dtype, shape }) = tensor else {
                storages.places.push(None);
                continue;
            };
            let first = catalog.tied_to(id);
            let view = shared.views.get(&first);
            let (owner, record) = match view {
                Some(view) => (RecordKey::Range(view.range), shared.ranges[view.range].clone()),
                None => (
                    RecordKey::Tensor(first),
                    StorageRecord::of_tensor(first, catalog.tensor(first).bytes, dtype),
                ),
            };
            let key = *keys.entry(owner).or_insert_with(|| {
                storages.records.push(record);
                storages.records.len() - 1
            });
            let (offset, strides) = match view {
                Some(view) => (view.offset, view.strides.clone()),
                None => (0, contiguous_strides(&shape)),
            };
            storages.places.push(Some(TensorLocation { dtype, key, offset, shape, strides }));
            if first != id {
                layout.alias(id, first)?;
            }
        }
        Ok(storages)
    }

    /// Returns a plan that contains only some of the records. Their keys are renumbered from 0.
    pub(super) fn only(&self, records: &[usize]) -> Self {
        let mut keys = vec![None; self.records.len()];
        for (key, &record) in records.iter().enumerate() {
            keys[record] = Some(key);
        }
        let moved = |place: &TensorLocation| Some(TensorLocation { key: keys[place.key]?, ..place.clone() });
        Self {
            format: self.format,
            records: records.iter().map(|&record| self.records[record].clone()).collect(),
            places: self.places.iter().map(|place| moved(place.as_ref()?)).collect(),
        }
    }

    /// Returns the location of a tensor, unless it is omitted.
    pub(super) fn place(&self, id: TensorId) -> Option<&TensorLocation> {
        self.places.get(id.0 as usize)?.as_ref()
    }
}

/// The tensor or shared range whose bytes a record contains.
#[derive(PartialEq, Eq, Hash)]
enum RecordKey {
    Tensor(TensorId),
    Range(usize),
}

impl StorageRecord {
    fn of_tensor(tensor: TensorId, len: u64, dtype: &TorchDtype) -> Self {
        let content = if len == 0 { Content::Empty } else { Content::Tensor(tensor) };
        Self { len, element_bytes: element_bytes(dtype), content }
    }

    /// Returns the number of elements in the record, counted in elements of the storage class.
    pub(super) fn elements(&self) -> u64 {
        self.len / self.element_bytes
    }

    /// Appends the record's bytes to `file` and returns their offset.
    pub(super) fn append(&self, layout: &mut dyn LayoutSink, file: OutputId) -> Result<u64> {
        match self.content {
            Content::Empty => layout.bytes(file, &[]),
            Content::Tensor(tensor) => layout.tensor(file, TensorPart::whole(tensor)),
            Content::Range { storage, offset, swap_unit } => {
                layout.storage(file, storage, offset, self.len, swap_unit)
            }
        }
    }
}

/// A tensor whose dtype and shape torch supports.
struct StorableTensor {
    dtype: &'static TorchDtype,
    shape: Vec<i64>,
}

impl StorableTensor {
    fn of(view: TensorView<'_>, has_scales: bool) -> Result<Self, String> {
        let dtype = TorchDtype::of(view.dtype).ok_or("torch has no such dtype")?;
        if dtype.quantized && !has_scales {
            return Err("torch cannot load it without its scales and zero points".to_owned());
        }
        let shape = dtype.torch_shape(view.shape).ok_or_else(|| {
            format!(
                "torch packs {} elements into one, and the last dimension of {:?} is not a multiple of that",
                dtype.packing(),
                view.shape
            )
        })?;
        let shape = shape.into_iter().map(i64::try_from).collect::<Result<_, _>>();
        Ok(Self { dtype, shape: shape.map_err(|_| "a dimension does not fit in 63 bits".to_owned())? })
    }
}

fn omit_reason(catalog: &dyn CatalogView, view: TensorView<'_>, why: &str) -> Result<String> {
    Ok(format!("a tensor of {}: {why}", catalog.dtype_info(view.dtype)?.name()))
}

/// Returns the number of bytes per element of a dtype's storage class. If the dtype has no storage
/// class, its elements are stored as bytes, and the result is 1.
fn element_bytes(dtype: &TorchDtype) -> u64 {
    dtype.storage_class.map_or(1, |_| dtype.element_bytes.into())
}

/// Byte ranges in source storages, each shared by several tensors.
#[derive(Default)]
struct SharedRanges {
    ranges: Vec<StorageRecord>,
    views: HashMap<TensorId, SharedView>,
}

/// The location of a tensor in a shared range.
struct SharedView {
    range: usize,
    offset: i64,
    strides: Vec<i64>,
}

/// A tensor that consists of a single block, and the byte range that the block covers.
struct ViewExtent {
    tensor: TensorId,
    block: Block,
    bytes: Range<u64>,
}

/// Finds groups of tensors that overlap in one storage, either directly or through other tensors of
/// the group. A tensor that consists of several blocks is not a view, so it is not in any group.
fn shared_ranges(
    catalog: &dyn CatalogView,
    carried: &[Option<StorableTensor>],
    layout: &mut dyn LayoutSink,
) -> Result<SharedRanges> {
    let mut extents = Vec::new();
    for (id, tensor) in catalog.tensor_ids().zip(carried) {
        if tensor.is_none() || catalog.tied_to(id) != id {
            continue;
        }
        let view = catalog.tensor(id);
        if let Ok([block]) = <[Block; 1]>::try_from(catalog.blocks(id, 0, 2)?) {
            let bytes = block.extent(catalog.dtype_info(view.dtype)?.element_bytes(), view.bytes);
            extents.push(ViewExtent { tensor: id, block, bytes });
        }
    }
    extents.sort_by_key(|extent| (extent.block.storage, extent.bytes.start, extent.tensor));

    let mut shared = SharedRanges::default();
    let mut first = 0;
    while first < extents.len() {
        let storage = extents[first].block.storage;
        let mut end = extents[first].bytes.end;
        let mut next = first + 1;
        while next < extents.len()
            && extents[next].block.storage == storage
            && extents[next].bytes.start < end
        {
            end = end.max(extents[next].bytes.end);
            next += 1;
        }
        let group = &extents[first..next];
        if group.len() > 1 {
            let range = extents[first].bytes.start..end;
            match share(catalog, carried, group, range)? {
                Ok((record, views)) => {
                    let index = shared.ranges.len();
                    shared.ranges.push(record);
                    shared.views.extend(group.iter().zip(views).map(|(extent, (offset, strides))| {
                        (extent.tensor, SharedView { range: index, offset, strides })
                    }));
                }
                Err(why) => report_unshared(catalog, group, why, layout)?,
            }
        }
        first = next;
    }
    Ok(shared)
}

/// The record for a shared range, with the offset and strides of each tensor in the record.
type Sharing = (StorageRecord, Vec<(i64, Vec<i64>)>);

/// Returns the record in which the tensors of a group share their bytes, or the reason why torch
/// cannot represent the sharing.
fn share(
    catalog: &dyn CatalogView,
    carried: &[Option<StorableTensor>],
    group: &[ViewExtent],
    range: Range<u64>,
) -> Result<Result<Sharing, &'static str>> {
    let storage = group[0].block.storage;
    let big_endian = catalog.storage(storage)?.byte_order == ByteOrder::Big;
    let mut needed = 0_u64;
    let mut carrier: Option<(&TorchDtype, u32)> = None;
    let mut views = Vec::with_capacity(group.len());
    for extent in group {
        let view = catalog.tensor(extent.tensor);
        let Some(StorableTensor { dtype, shape }) = &carried[extent.tensor.0 as usize] else {
            return Ok(Err("one of them is omitted"));
        };
        let swap_unit = if big_endian { catalog.dtype_info(view.dtype)?.swap_unit() } else { 1 };
        // A record has only one storage class. Dtypes without a storage class can share an untyped
        // storage.
        let (first, first_unit) = *carrier.get_or_insert((dtype, swap_unit));
        if first.storage_class != dtype.storage_class {
            return Ok(Err("they have different dtypes, and a torch storage has only one"));
        }
        if first_unit != swap_unit {
            return Ok(Err("their big-endian bytes are not reversed in the same units"));
        }
        let Some(strides) = torch_strides(&extent.block, view.dtype, shape) else {
            return Ok(Err("one of them has a negative stride, which torch does not support"));
        };
        let offset = extent.block.offset - range.start;
        if !offset.is_multiple_of(dtype.element_bytes.into()) {
            return Ok(Err("one of them does not start at a whole element of the other"));
        }
        let Ok(offset) = i64::try_from(offset / u64::from(dtype.element_bytes)) else {
            return Ok(Err("the storage is too long for torch"));
        };
        needed = needed.saturating_add(view.bytes);
        views.push((offset, strides));
    }
    let len = range.end - range.start;
    if len > needed.saturating_mul(MAX_SHARED_RANGE_RATIO) {
        return Ok(Err("they are only a small part of the bytes that they span"));
    }
    let swap_unit = carrier.map_or(1, |(_, unit)| unit);
    if !range.start.is_multiple_of(swap_unit.into()) || !len.is_multiple_of(swap_unit.into()) {
        return Ok(Err("their big-endian bytes are not aligned to their unit"));
    }
    let content = Content::Range { storage, offset: range.start, swap_unit };
    let element_bytes = carrier.map_or(1, |(dtype, _)| element_bytes(dtype));
    Ok(Ok((StorageRecord { len, element_bytes, content }, views)))
}

/// Returns the strides of a block in the form that torch expects, or `None` if a stride is
/// negative. torch never uses the stride of a dimension of length 1, so it is set to the stride in
/// a contiguous tensor. A packed block is always contiguous.
fn torch_strides(block: &Block, dtype: Dtype, shape: &[i64]) -> Option<Vec<i64>> {
    let mut strides = contiguous_strides(shape);
    if dtype == Dtype::F4 {
        return Some(strides);
    }
    for ((stride, &len), &given) in strides.iter_mut().zip(shape).zip(&block.strides) {
        if len != 1 {
            *stride = (given >= 0).then_some(given)?;
        }
    }
    Some(strides)
}

fn report_unshared(
    catalog: &dyn CatalogView,
    group: &[ViewExtent],
    why: &str,
    layout: &mut dyn LayoutSink,
) -> Result<()> {
    let Some(first) = group.iter().map(|extent| extent.tensor).min() else { return Ok(()) };
    let name = catalog.tensor(first).name;
    let mut others: Vec<TensorId> =
        group.iter().map(|extent| extent.tensor).filter(|&id| id != first).collect();
    others.sort_unstable();
    for id in others {
        let why = format!("it shares bytes with {name:?} but is written separately: {why}");
        layout.loss(Loss::new(LossKind::Alias, catalog.tensor(id).name, why))?;
    }
    Ok(())
}
