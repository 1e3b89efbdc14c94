//! Reads a bundle: its index becomes a catalog.

use crate::bundle::{BundleIndex, Placer, StringTensors};
use crate::locate::{Checkpoint, locate};
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::{ByteSink, CatalogSink, Context, Error, Loss, LossKind, Result, Source, TensorReader};

/// Reads checkpoints.
#[derive(Debug, Default)]
pub(crate) struct CheckpointReader {
    /// What the encoded storages' handles stand for.
    strings: Mutex<Arc<StringTensors>>,
}

impl TensorReader for CheckpointReader {
    fn read(&self, source: &dyn Source, catalog: &mut dyn CatalogSink, context: &dyn Context) -> Result<()> {
        let strings = match locate(source, context)? {
            Checkpoint::V2(prefix) => read_bundle(source, &prefix, catalog, context)?,
            Checkpoint::V1(files) => {
                let file = files.into_iter().next().unwrap_or_default();
                return Err(Error::unsupported("a V1 checkpoint").file(file));
            }
        };
        *self.strings.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(strings);
        Ok(())
    }

    fn decode(
        &self,
        source: &dyn Source,
        handle: u64,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let strings = Arc::clone(&self.strings.lock().unwrap_or_else(PoisonError::into_inner));
        strings.decode(source, handle, output, context)
    }
}

/// Reads the bundle of a prefix, each tensor under its key. What it gives decodes the catalog's
/// encoded storages, which are its tensors of strings.
///
/// # Errors
/// Malformed, with the file, the offset and the key: whatever is broken; unsupported; over a limit;
/// i/o.
pub(crate) fn read_bundle(
    source: &dyn Source,
    prefix: &str,
    catalog: &mut dyn CatalogSink,
    context: &dyn Context,
) -> Result<StringTensors> {
    let index = BundleIndex::read(source, prefix, context)?;
    let mut placer = Placer::new(&index, source);
    for entry in &index.entries {
        placer.place(catalog, &entry.name(), entry)?;
    }
    for slice in index.unnamed_slices() {
        catalog.loss(Loss::new(
            LossKind::Tensor,
            slice,
            "no tensor of the bundle names this slice as its own",
        ))?;
    }
    Ok(placer.into_string_tensors())
}
