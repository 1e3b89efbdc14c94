//! Counts the values that casts change, separately for each tensor. The copy counts the changes in
//! the bytes that it writes. In storages with several views and in streamed files, the copy cannot
//! determine which tensor contains the bytes. The tensors in them are read once more. Each element
//! of the output is counted once, even if the element is read several times.

use crate::cast::{CastLosses, ReadObserver};
use crate::copy_plan::{PlannedCopy, plan_copies, tensor_of};
use crate::gather::Scratch;
use crate::logical::Logical;
use crate::slabs::{DigestPolicy, SlabBuffers, Slabs};
use crate::stored::Stored;
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use tensorferry_core::context::windows::windows;
use tensorferry_sdk::{
    Catalog, CatalogView, Context, Dtype, Error, Layout, Loss, LossKind, Result, Severity, StorageLocation,
    TensorId, TensorPart,
};

/// The counts of values that casts have changed, by tensor.
pub struct CastTally {
    /// The tensors whose values a cast may change, with the dtypes of the conversion.
    may_lose: BTreeMap<TensorId, Vec<Dtype>>,
    lost: Mutex<BTreeMap<TensorId, CastLosses>>,
}

/// Returns notes for a dry run about casts whose losses will only be known after the copy.
pub fn foresee<'a>(models: impl Iterator<Item = &'a Logical<'a>>) -> Result<Vec<String>> {
    let mut tensors: BTreeMap<String, u64> = BTreeMap::new();
    for logical in models {
        for dtypes in may_lose(logical.catalog(), logical.stored())?.values() {
            *tensors.entry(dtype_chain(dtypes)).or_default() += 1;
        }
    }
    let say = |(way, count)| {
        format!("{count} tensors are cast from {way}: their losses are known only after they are read")
    };
    Ok(tensors.into_iter().map(say).collect())
}

/// Returns the tensors whose values casts may change, with the dtypes of the conversion.
fn may_lose(catalog: &Catalog, stored: &Stored<'_>) -> Result<BTreeMap<TensorId, Vec<Dtype>>> {
    let mut found = BTreeMap::new();
    for (id, tensor) in (0..).map(TensorId).zip(catalog.tensors()) {
        for storage in tensor.storages() {
            if let (Some(chain), Some(StorageLocation::Cast(cast))) =
                (stored.chain(storage)?, catalog.storage(storage).map(|storage| &storage.location))
                && !chain.is_exact()
            {
                found.insert(id, cast.dtypes.clone());
                break;
            }
        }
    }
    Ok(found)
}

impl CastTally {
    /// Creates a tally without counts.
    pub fn of(logical: &Logical<'_>) -> Result<Self> {
        Ok(Self { may_lose: may_lose(logical.catalog(), logical.stored())?, lost: Mutex::default() })
    }

    /// Returns whether a cast may change the tensor's values.
    #[must_use]
    pub fn may_lose(&self, tensor: TensorId) -> bool {
        self.may_lose.contains_key(&tensor)
    }

    /// Adds counts to a tensor's counts.
    pub fn add(&self, tensor: TensorId, lost: CastLosses) {
        if self.may_lose(tensor) {
            *self.lock().entry(tensor).or_default() += lost;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<TensorId, CastLosses>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the output's tensors for which the copy has not added counts, and returns all losses
    /// from casts.
    pub fn finish(self, logical: &Logical<'_>, layout: &Layout) -> Result<Vec<Loss>> {
        let known: BTreeSet<TensorId> = self.lock().keys().map(|&id| logical.tied_to(id)).collect();
        let mut missing: BTreeMap<TensorId, TensorId> = BTreeMap::new();
        for &id in self.may_lose.keys().filter(|id| !layout.omitted().contains(id)) {
            if !known.contains(&logical.tied_to(id)) {
                missing.entry(logical.tied_to(id)).or_insert(id);
            }
        }
        let missing: Vec<TensorId> = missing.into_values().collect();
        missing.par_iter().try_for_each(|&id| {
            self.add(id, count(logical, id)?);
            Ok::<_, Error>(())
        })?;
        let lost = self.lost.into_inner().unwrap_or_else(PoisonError::into_inner);
        let lost = lost.into_iter().filter(|(_, lost)| lost.values() > 0);
        lost.map(|(id, lost)| loss(logical, id, &self.may_lose[&id], lost)).collect()
    }
}

fn loss(logical: &Logical<'_>, id: TensorId, dtypes: &[Dtype], lost: CastLosses) -> Result<Loss> {
    let tensor = tensor_of(logical.catalog(), id)?;
    let width = tensor.dtype.info().and_then(|info| info.element_bytes()).map_or(1, u64::from);
    let why =
        format!("cast from {}: of {} values {}", dtype_chain(dtypes), tensor.bytes / width, lost.describe());
    // Rounding is expected in a cast, but out-of-range numbers are lost data.
    let severity = if lost.is_out_of_range() { Severity::Lost } else { Severity::Changed };
    Ok(Loss::new(LossKind::Precision, &tensor.name, why).severity(severity).requested_by_user())
}

/// Returns the names of the dtypes of a conversion, joined with "to".
fn dtype_chain(dtypes: &[Dtype]) -> String {
    let names: Vec<&str> = dtypes.iter().filter_map(|dtype| Some(dtype.info()?.name())).collect();
    names.join(" to ")
}

/// Reads a tensor and counts the values that its cast changes.
fn count(logical: &Logical<'_>, id: TensorId) -> Result<CastLosses> {
    let stored = logical.stored();
    let (mut scratch, mut buffer) = (Scratch::default(), Vec::new());
    let mut lost = CastLosses::default();
    let part = TensorPart::whole(id);
    if let Some(slabs) = Slabs::of(logical.catalog(), &part, stored.session().slab_bytes())? {
        let mut buffers = SlabBuffers::default();
        for number in 0..slabs.count() {
            lost += slabs.copy(number, stored, DigestPolicy::Ignored, &mut buffers, &mut |_, _| Ok(()))?;
        }
        return Ok(lost);
    }
    for copy in plan_copies(logical.catalog(), &part)? {
        match copy {
            PlannedCopy::Contiguous { len, storage, from, .. } => {
                for (start, len) in windows(from..from + len) {
                    stored.session().check_cancelled()?;
                    buffer.resize(len, 0);
                    let owned = start..start + len as u64;
                    let mut observer = ReadObserver { owned, see: &mut |_, _, _| Ok(()) };
                    lost += stored.read_observed(storage, start, &mut buffer, &mut observer)?;
                }
            }
            PlannedCopy::Strided { copy, storage, .. } => {
                let Some(chain) = stored.chain(storage)? else { continue };
                for tile in chain.rescaled(&copy).tiles(stored.session().gather_bytes()).iter() {
                    stored.session().check_cancelled()?;
                    let buffers = (&mut scratch, &mut buffer);
                    let read = |from, lying: &mut [u8]| stored.read(chain.of, from, lying);
                    lost += chain.copy_tile(&tile, 1, buffers, read, |_, _| Ok(()))?;
                }
            }
        }
    }
    Ok(lost)
}
