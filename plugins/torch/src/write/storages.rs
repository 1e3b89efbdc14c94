//! A storage record holds the bytes of one tensor and of those tied to it, or of several tensors
//! that are overlapping views of one source storage.
//!
//! A tensor alone is written row-major, whatever its strides were. Overlapping views keep sharing:
//! the stretch that they reach is written once, as it lies, and each keeps its offset and strides.
//! Where torch could not say that, they are written apart, with a loss of kind `alias`.

use super::FileFormat;
use super::composed::InThePickle;
use std::collections::HashMap;
use std::ops::Range;
use tensorferry_sdk::{
    Block, ByteOrder, CatalogView, Context, Dtype, LayoutSink, Loss, LossKind, OutputId, Result, StorageId,
    TensorId, TensorPart, TensorView,
};
use tensorferry_torch_file::{TorchDtype, contiguous_strides};

/// How much longer a shared stretch may be than the tensors in it together.
const MOST_WASTE: u64 = 2;

/// What each record holds, and where each tensor is.
pub(super) struct Storages {
    /// The file that they are for.
    pub(super) format: FileFormat,
    /// The records, by key.
    pub(super) records: Vec<StorageRecord>,
    /// By tensor; `None` for those that are given up.
    pub(super) places: Vec<Option<Place>>,
}

/// The bytes of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StorageRecord {
    /// How many.
    pub(super) len: u64,
    /// How long an element of its class is; 1, if it has none.
    element_bytes: u64,
    content: Content,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Empty,
    Tensor(TensorId),
    Stretch { storage: StorageId, offset: u64, swap_unit: u32 },
}

/// A tensor in torch's terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Its dtype.
    pub(super) dtype: &'static TorchDtype,
    /// The index of its record.
    pub(super) key: usize,
    /// Where it begins in the record, in elements.
    pub(super) offset: i64,
    /// Its shape, in torch's elements.
    pub(super) shape: Vec<i64>,
    /// From one index to the next, in torch's elements.
    pub(super) strides: Vec<i64>,
}

impl Storages {
    /// Finds a place for each tensor; says which of them are given up, and which are aliases.
    pub(super) fn plan(
        format: FileFormat,
        catalog: &dyn CatalogView,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Self> {
        let mut carried: Vec<Option<StorableTensor>> = Vec::new();
        let said = InThePickle::of(catalog)?;
        for id in catalog.tensor_ids() {
            let view = catalog.tensor(id);
            let planned = match format {
                FileFormat::Zip => StorableTensor::of(view, said.integers.contains(&id)),
                // These stand in the pickle, and the loader of streams fails on storages that no tensor
                // names.
                FileFormat::Legacy if said.shapes.contains(&id) => {
                    Err("it is kept as the size of its sparse tensor, and -o format=zip keeps it itself"
                        .to_owned())
                }
                FileFormat::Legacy if said.scales.contains(&id) => {
                    Err("it belongs to a quantized tensor, which -o format=zip carries".to_owned())
                }
                FileFormat::Legacy => StorableTensor::of(view, false),
            };
            match planned {
                Ok(tensor) => carried.push(Some(tensor)),
                Err(why) => {
                    layout.omit(id, &why_not(catalog, view, &why)?)?;
                    carried.push(None);
                }
            }
        }
        context.check_cancelled()?;
        let shared = shared_stretches(catalog, &carried, layout)?;
        context.check_cancelled()?;

        let mut storages = Self { format, records: Vec::new(), places: Vec::with_capacity(carried.len()) };
        let mut keys: HashMap<Owner, usize> = HashMap::new();
        for (id, tensor) in catalog.tensor_ids().zip(carried) {
            let Some(StorableTensor { dtype, shape }) = tensor else {
                storages.places.push(None);
                continue;
            };
            let first = catalog.tied_to(id);
            let view = shared.views.get(&first);
            let (owner, record) = match view {
                Some(view) => (Owner::Stretch(view.stretch), shared.stretches[view.stretch].clone()),
                None => (
                    Owner::Tensor(first),
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
            storages.places.push(Some(Place { dtype, key, offset, shape, strides }));
            if first != id {
                layout.alias(id, first)?;
            }
        }
        Ok(storages)
    }

    /// The same for some of the records alone, which get keys from 0 on.
    pub(super) fn only(&self, records: &[usize]) -> Self {
        let mut keys = vec![None; self.records.len()];
        for (key, &record) in records.iter().enumerate() {
            keys[record] = Some(key);
        }
        let moved = |place: &Place| Some(Place { key: keys[place.key]?, ..place.clone() });
        Self {
            format: self.format,
            records: records.iter().map(|&record| self.records[record].clone()).collect(),
            places: self.places.iter().map(|place| moved(place.as_ref()?)).collect(),
        }
    }

    /// Where a tensor is, unless it is given up.
    pub(super) fn place(&self, id: TensorId) -> Option<&Place> {
        self.places.get(id.0 as usize)?.as_ref()
    }
}

/// Whose record it is.
#[derive(PartialEq, Eq, Hash)]
enum Owner {
    Tensor(TensorId),
    Stretch(usize),
}

impl StorageRecord {
    fn of_tensor(tensor: TensorId, len: u64, dtype: &TorchDtype) -> Self {
        let content = if len == 0 { Content::Empty } else { Content::Tensor(tensor) };
        Self { len, element_bytes: element_bytes(dtype), content }
    }

    /// How many elements of its class it has.
    pub(super) fn elements(&self) -> u64 {
        self.len / self.element_bytes
    }

    /// Appends the bytes to `file`; gives their offset there.
    pub(super) fn append(&self, layout: &mut dyn LayoutSink, file: OutputId) -> Result<u64> {
        match self.content {
            Content::Empty => layout.bytes(file, &[]),
            Content::Tensor(tensor) => layout.tensor(file, TensorPart::whole(tensor)),
            Content::Stretch { storage, offset, swap_unit } => {
                layout.storage(file, storage, offset, self.len, swap_unit)
            }
        }
    }
}

/// A tensor that torch has a dtype and a shape for.
struct StorableTensor {
    dtype: &'static TorchDtype,
    shape: Vec<i64>,
}

impl StorableTensor {
    fn of(view: TensorView<'_>, has_scales: bool) -> Result<Self, String> {
        let dtype = TorchDtype::of(view.dtype).ok_or("torch has no such dtype")?;
        if dtype.quantized && !has_scales {
            return Err("without its scales and zero points torch cannot load it".to_owned());
        }
        let shape = dtype.torch_shape(view.shape).ok_or_else(|| {
            format!(
                "torch packs {} elements in one, which the last dimension of {:?} is not a multiple of",
                dtype.packing(),
                view.shape
            )
        })?;
        let shape = shape.into_iter().map(i64::try_from).collect::<Result<_, _>>();
        Ok(Self { dtype, shape: shape.map_err(|_| "a dimension is longer than 63 bits".to_owned())? })
    }
}

fn why_not(catalog: &dyn CatalogView, view: TensorView<'_>, why: &str) -> Result<String> {
    Ok(format!("a tensor of {}: {why}", catalog.dtype_info(view.dtype)?.name()))
}

/// The length of an element of the dtype's storage class: 1 where it has none, and so is kept as bytes.
fn element_bytes(dtype: &TorchDtype) -> u64 {
    dtype.storage_class.map_or(1, |_| dtype.element_bytes.into())
}

/// The stretches of source storages that several tensors share.
#[derive(Default)]
struct SharedStretches {
    stretches: Vec<StorageRecord>,
    views: HashMap<TensorId, SharedView>,
}

/// A tensor in a shared stretch.
struct SharedView {
    stretch: usize,
    offset: i64,
    strides: Vec<i64>,
}

/// A tensor that is one block, and what its block reaches.
struct ViewExtent {
    tensor: TensorId,
    block: Block,
    bytes: Range<u64>,
}

/// Groups tensors by overlap: those that reach the same bytes of one storage, also by way of a
/// third. A tensor of several blocks is a view of nothing, so it has no part in this.
fn shared_stretches(
    catalog: &dyn CatalogView,
    carried: &[Option<StorableTensor>],
    layout: &mut dyn LayoutSink,
) -> Result<SharedStretches> {
    let mut reaches = Vec::new();
    for (id, tensor) in catalog.tensor_ids().zip(carried) {
        if tensor.is_none() || catalog.tied_to(id) != id {
            continue;
        }
        let view = catalog.tensor(id);
        if let Ok([block]) = <[Block; 1]>::try_from(catalog.blocks(id, 0, 2)?) {
            let bytes = block.extent(catalog.dtype_info(view.dtype)?.element_bytes(), view.bytes);
            reaches.push(ViewExtent { tensor: id, block, bytes });
        }
    }
    reaches.sort_by_key(|reach| (reach.block.storage, reach.bytes.start, reach.tensor));

    let mut shared = SharedStretches::default();
    let mut first = 0;
    while first < reaches.len() {
        let storage = reaches[first].block.storage;
        let mut end = reaches[first].bytes.end;
        let mut next = first + 1;
        while next < reaches.len()
            && reaches[next].block.storage == storage
            && reaches[next].bytes.start < end
        {
            end = end.max(reaches[next].bytes.end);
            next += 1;
        }
        let group = &reaches[first..next];
        if group.len() > 1 {
            let stretch = reaches[first].bytes.start..end;
            match share(catalog, carried, group, stretch)? {
                Ok((record, views)) => {
                    let index = shared.stretches.len();
                    shared.stretches.push(record);
                    shared.views.extend(group.iter().zip(views).map(|(reach, (offset, strides))| {
                        (reach.tensor, SharedView { stretch: index, offset, strides })
                    }));
                }
                Err(why) => lose_sharing(catalog, group, why, layout)?,
            }
        }
        first = next;
    }
    Ok(shared)
}

/// A record for a stretch, and each tensor's offset and strides in it.
type Sharing = (StorageRecord, Vec<(i64, Vec<i64>)>);

/// How the tensors of a group share a stretch of their storage, or why torch could not say so.
fn share(
    catalog: &dyn CatalogView,
    carried: &[Option<StorableTensor>],
    group: &[ViewExtent],
    stretch: Range<u64>,
) -> Result<Result<Sharing, &'static str>> {
    let storage = group[0].block.storage;
    let big_endian = catalog.storage(storage)?.byte_order == ByteOrder::Big;
    let mut needed = 0_u64;
    let mut carrier: Option<(&TorchDtype, u32)> = None;
    let mut views = Vec::with_capacity(group.len());
    for reach in group {
        let view = catalog.tensor(reach.tensor);
        let Some(StorableTensor { dtype, shape }) = &carried[reach.tensor.0 as usize] else {
            return Ok(Err("one of them is given up"));
        };
        let swap_unit = if big_endian { catalog.dtype_info(view.dtype)?.swap_unit() } else { 1 };
        // A record's key carries one storage class; an untyped storage carries every dtype without.
        let (first, first_unit) = *carrier.get_or_insert((dtype, swap_unit));
        if first.storage_class != dtype.storage_class {
            return Ok(Err("they have different dtypes, and a torch storage has one"));
        }
        if first_unit != swap_unit {
            return Ok(Err("their big-endian bytes are not reversed in the same units"));
        }
        let Some(strides) = torch_strides(&reach.block, view.dtype, shape) else {
            return Ok(Err("one of them has a negative stride, which torch has not"));
        };
        let offset = reach.block.offset - stretch.start;
        if !offset.is_multiple_of(dtype.element_bytes.into()) {
            return Ok(Err("one of them does not begin at a whole element of the other"));
        }
        let Ok(offset) = i64::try_from(offset / u64::from(dtype.element_bytes)) else {
            return Ok(Err("the storage is too long for torch"));
        };
        needed = needed.saturating_add(view.bytes);
        views.push((offset, strides));
    }
    let len = stretch.end - stretch.start;
    if len > needed.saturating_mul(MOST_WASTE) {
        return Ok(Err("they are a small part of the storage that they are views of"));
    }
    let swap_unit = carrier.map_or(1, |(_, unit)| unit);
    if !stretch.start.is_multiple_of(swap_unit.into()) || !len.is_multiple_of(swap_unit.into()) {
        return Ok(Err("their big-endian bytes do not lie at a multiple of their length"));
    }
    let content = Content::Stretch { storage, offset: stretch.start, swap_unit };
    let element_bytes = carrier.map_or(1, |(dtype, _)| element_bytes(dtype));
    Ok(Ok((StorageRecord { len, element_bytes, content }, views)))
}

/// A block's strides as torch takes them; `None` if one is negative. Those of dimensions of length
/// 1 are never used, so they become what a contiguous tensor has. A packed block always is one.
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

fn lose_sharing(
    catalog: &dyn CatalogView,
    group: &[ViewExtent],
    why: &str,
    layout: &mut dyn LayoutSink,
) -> Result<()> {
    let Some(first) = group.iter().map(|reach| reach.tensor).min() else { return Ok(()) };
    let name = catalog.tensor(first).name;
    let mut others: Vec<TensorId> =
        group.iter().map(|reach| reach.tensor).filter(|&id| id != first).collect();
    others.sort_unstable();
    for id in others {
        let why = format!("it shares bytes with {name:?}, and is written apart: {why}");
        layout.loss(Loss::new(LossKind::Alias, catalog.tensor(id).name, why))?;
    }
    Ok(())
}
