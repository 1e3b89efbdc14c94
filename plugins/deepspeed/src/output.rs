//! Puts the selected tensors into the catalog: the storages that they need, and each as a view of one.

use crate::selected::{Elements, SelectedTensors};
use crate::split_vector::Run;
use crate::widened::{Widened, is_widened};
use std::collections::HashMap;
use tensorferry_sdk::{
    Catalog, CatalogSink, Context, Dtype, Error, Loss, LossKind, Result, Storage, StorageId, StorageRange,
    TensorId,
};
use tensorferry_torch_file::Location;

/// Puts tensors into a catalog; `collected` has the storages of their locations. With `as_f32`, floats of
/// other widths become F32: what the handles of encoded storages stand for is returned.
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
    /// The storages that are read as they lie.
    declared: HashMap<StorageId, StorageId>,
    /// Those that are joined, by the ranges: tied tensors stay tied.
    joined: HashMap<Vec<StorageRange>, StorageId>,
    /// Those that are widened, by where they begin and how long they are: tied tensors stay tied.
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
            Some((storage, offset)) => Some(self.start(storage, offset, reach(location)?, location.dtype)?),
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

    /// The storage of a tensor that goes on from one rank's piece to the next.
    fn join(&mut self, ranges: Vec<StorageRange>, runs: &[Run], dtype: Dtype) -> Result<StorageId> {
        if let Some(&known) = self.joined.get(&ranges) {
            return Ok(known);
        }
        let first = runs.first().and_then(|run| self.collected.storage(run.storage));
        // What is widened is decoded, to little-endian.
        let lies_so = first.filter(|_| !(self.as_f32 && is_widened(dtype)));
        let byte_order = lies_so.map(|storage| storage.byte_order).unwrap_or_default();
        let id = self.catalog.storage(Storage::joined(ranges.clone()).byte_order(byte_order))?;
        self.joined.insert(ranges, id);
        Ok(id)
    }

    /// The dtype that the tensor will have.
    fn dtype(&mut self, name: &str, dtype: Dtype) -> Result<Dtype> {
        if !self.as_f32 || !is_widened(dtype) {
            return Ok(dtype);
        }
        if dtype == Dtype::F64 {
            let why = "F64 becomes F32, as zero_to_fp32.py has it; -i what=model keeps it";
            self.catalog.loss(Loss::new(LossKind::Precision, name, why))?;
        }
        Ok(Dtype::F32)
    }

    /// Where the catalog has `len` elements that were found at a byte of a storage.
    fn start(&mut self, storage: StorageId, offset: u64, len: u64, dtype: Dtype) -> Result<(StorageId, u64)> {
        let collected = self.collected.storage(storage);
        let collected = collected.ok_or_else(|| Error::plugin("a storage that was not found"))?;
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
        // Its handle would be one of the finder's.
        if matches!(collected.place, tensorferry_sdk::Place::Encoded { .. }) {
            return Err(Error::unsupported("a tensor whose values are made of others, as conjugates are"));
        }
        if let Some(&known) = self.declared.get(&storage) {
            return Ok((known, offset));
        }
        let id = self.catalog.storage(collected.clone())?;
        self.declared.insert(storage, id);
        Ok((id, offset))
    }
}

/// How many elements of its storage a view reaches over.
fn reach(location: &Location) -> Result<u64> {
    let Some(strides) = &location.strides else { return tensorferry_sdk::element_count(&location.shape) };
    let mut reach = Some(1_u64);
    for (&len, &stride) in location.shape.iter().zip(strides) {
        let stride = u64::try_from(stride).ok();
        reach =
            reach.zip(stride).and_then(|(reach, stride)| reach.checked_add((len - 1).checked_mul(stride)?));
    }
    reach.ok_or_else(|| Error::malformed("a view's extent does not fit 64 bits"))
}
