//! Writes the selected tensors to the catalog: the storages that they need, and each tensor as a
//! view of a storage.

use crate::selected::{Elements, SelectedTensors};
use crate::split_vector::Run;
use crate::widened::{Widened, is_widened};
use std::collections::HashMap;
use tensorferry_sdk::{
    Catalog, CatalogSink, Context, Dtype, Error, Loss, LossKind, Result, Storage, StorageId, StorageRange,
    TensorId,
};
use tensorferry_torch_file::Location;

/// Writes the selected tensors to `catalog`. Their locations refer to storages in `collected`. If
/// `as_f32` is set, floats of other widths are converted to F32. Returns the conversions for the
/// encoded storages, in the order of the storages' handles.
pub(crate) fn write(
    selected: &SelectedTensors,
    collected: &Catalog,
    as_f32: bool,
    catalog: &mut dyn CatalogSink,
    context: &dyn Context,
) -> Result<Vec<Widened>> {
    let mut output = Output {
        collected,
        as_f32,
        catalog,
        declared: HashMap::new(),
        joined: HashMap::new(),
        by_start: HashMap::new(),
        widened: Vec::new(),
    };
    for (name, elements) in &selected.tensors {
        context.check_cancelled()?;
        output.tensor(name, elements).map_err(|error| error.tensor(name))?;
    }
    selected.losses.iter().try_for_each(|loss| output.catalog.loss(loss.clone()))?;
    Ok(output.widened)
}

struct Output<'o> {
    collected: &'o Catalog,
    as_f32: bool,
    catalog: &'o mut dyn CatalogSink,
    /// Storages that are read unchanged: maps their IDs in `collected` to their IDs in `catalog`.
    declared: HashMap<StorageId, StorageId>,
    /// Joined storages, keyed by the ranges that form each of them. Tied tensors share an entry, so
    /// they remain tied.
    joined: HashMap<Vec<StorageRange>, StorageId>,
    /// Widened storages, by storage, offset and length. Tied tensors share an entry, so they remain
    /// tied.
    by_start: HashMap<(StorageId, u64, u64), StorageId>,
    widened: Vec<Widened>,
}

impl Output<'_> {
    fn tensor(&mut self, name: &str, elements: &Elements) -> Result<TensorId> {
        match elements {
            Elements::View(location) => self.view(name, location),
            Elements::Split { dtype, shape, runs } => self.split(name, *dtype, shape, runs),
            Elements::Shared(location) => {
                if let Some((storage, _)) = location.start {
                    self.declared.remove(&storage);
                }
                self.view(name, location)
            }
            Elements::Number(dtype, bytes) => {
                let storage = self.catalog.storage(Storage::inline(*bytes))?;
                self.catalog.tensor(name, *dtype, &[], storage, 0)
            }
        }
    }

    fn view(&mut self, name: &str, location: &Location) -> Result<TensorId> {
        let dtype = self.dtype(name, location.dtype)?;
        let start = match location.start {
            Some((storage, offset)) => {
                Some(self.start(storage, offset, spanned_elements(location)?, location.dtype)?)
            }
            None => None,
        };
        Location { dtype, start, ..location.clone() }.add(self.catalog, name)
    }

    fn split(&mut self, name: &str, dtype: Dtype, shape: &[u64], runs: &[Run]) -> Result<TensorId> {
        let widened = self.dtype(name, dtype)?;
        let width = widened.info().and_then(|info| info.element_bytes()).map_or(1, u64::from);
        let mut ranges = Vec::with_capacity(runs.len());
        for run in runs {
            let (storage, offset) = self.start(run.storage, run.offset, run.len, dtype)?;
            ranges.push(StorageRange { storage, offset, len: run.len.saturating_mul(width) });
        }
        let (storage, offset) = match &*ranges {
            [one] => (one.storage, one.offset),
            _ => (self.join(ranges, runs, dtype)?, 0),
        };
        self.catalog.tensor(name, widened, shape, storage, offset)
    }

    /// Returns the storage of a tensor whose elements are in several pieces.
    fn join(&mut self, ranges: Vec<StorageRange>, runs: &[Run], dtype: Dtype) -> Result<StorageId> {
        if let Some(&known) = self.joined.get(&ranges) {
            return Ok(known);
        }
        let first = runs.first().and_then(|run| self.collected.storage(run.storage));
        // Widened values are decoded to little-endian regardless of the byte order of the source.
        let lies_so = first.filter(|_| !(self.as_f32 && is_widened(dtype)));
        let byte_order = lies_so.map(|storage| storage.byte_order).unwrap_or_default();
        let id = self.catalog.storage(Storage::joined(ranges.clone()).byte_order(byte_order))?;
        self.joined.insert(ranges, id);
        Ok(id)
    }

    /// Returns the dtype of a tensor in the output catalog.
    fn dtype(&mut self, name: &str, dtype: Dtype) -> Result<Dtype> {
        if !self.as_f32 || !is_widened(dtype) {
            return Ok(dtype);
        }
        if dtype == Dtype::F64 {
            let why = "F64 becomes F32, as in zero_to_fp32.py; -i state=model keeps F64";
            self.catalog.loss(Loss::new(LossKind::Precision, name, why))?;
        }
        Ok(Dtype::F32)
    }

    /// Returns the location in the output catalog of `len` elements that start at a byte offset of
    /// a collected storage.
    fn start(&mut self, storage: StorageId, offset: u64, len: u64, dtype: Dtype) -> Result<(StorageId, u64)> {
        let collected = self.collected.storage(storage);
        let collected = collected.ok_or_else(|| Error::plugin("a location in an unknown storage"))?;
        if self.as_f32 && is_widened(dtype) {
            let key = (storage, offset, len);
            if let Some(&known) = self.by_start.get(&key) {
                return Ok((known, 0));
            }
            let widened = Widened::new(collected, offset, len, dtype)?;
            let id = self.catalog.storage(Storage::encoded(self.widened.len() as u64, widened.len()?))?;
            self.widened.push(widened);
            self.by_start.insert(key, id);
            return Ok((id, 0));
        }
        // The handle of an encoded storage is valid only in the collector's catalog.
        if matches!(collected.location, tensorferry_sdk::StorageLocation::Encoded { .. }) {
            return Err(Error::unsupported("a tensor with computed values, such as a conjugate"));
        }
        if let Some(&known) = self.declared.get(&storage) {
            return Ok((known, offset));
        }
        let id = self.catalog.storage(collected.clone())?;
        self.declared.insert(storage, id);
        Ok((id, offset))
    }
}

/// Returns the number of elements that a view spans in its storage.
fn spanned_elements(location: &Location) -> Result<u64> {
    let Some(strides) = &location.strides else { return tensorferry_sdk::element_count(&location.shape) };
    let mut reach = Some(1_u64);
    for (&len, &stride) in location.shape.iter().zip(strides) {
        let stride = u64::try_from(stride).ok();
        reach =
            reach.zip(stride).and_then(|(reach, stride)| reach.checked_add((len - 1).checked_mul(stride)?));
    }
    reach.ok_or_else(|| Error::malformed("the extent of a view does not fit in 64 bits"))
}
