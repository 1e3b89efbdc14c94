//! Reads checkpoints of both versions.

use crate::bundle::StringTensors;
use crate::bundle_tensors::{Labels, read_bundle};
use crate::locate::{Checkpoint, locate};
use crate::options::ReadOptions;
use crate::v1::{V1Storages, read_v1};
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::{ByteSink, CatalogSink, Context, Options, Result, Source, TensorReader};

/// Reads checkpoints.
#[derive(Debug)]
pub(crate) struct CheckpointReader {
    options: ReadOptions,
    decoder: Mutex<Arc<Decoder>>,
}

/// What the encoded storages' handles stand for.
#[derive(Debug)]
enum Decoder {
    V2(StringTensors),
    V1(V1Storages),
}

impl CheckpointReader {
    /// A reader with these options.
    pub(crate) fn new(options: &Options) -> Self {
        let nothing = Decoder::V2(StringTensors::default());
        Self { options: ReadOptions::new(options), decoder: Mutex::new(Arc::new(nothing)) }
    }
}

impl TensorReader for CheckpointReader {
    fn read(&self, source: &dyn Source, catalog: &mut dyn CatalogSink, context: &dyn Context) -> Result<()> {
        let decoder = match locate(source, context)? {
            Checkpoint::V2(prefix) => {
                let labels = |_: Option<&_>| Labels::new();
                Decoder::V2(read_bundle(source, &prefix, &self.options, &labels, catalog, context)?)
            }
            Checkpoint::V1(files) => Decoder::V1(read_v1(source, &files, catalog, context)?),
        };
        *self.decoder.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(decoder);
        Ok(())
    }

    fn decode(
        &self,
        source: &dyn Source,
        handle: u64,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<()> {
        let decoder = Arc::clone(&self.decoder.lock().unwrap_or_else(PoisonError::into_inner));
        match &*decoder {
            Decoder::V2(strings) => strings.decode(source, handle, output, context),
            Decoder::V1(storages) => storages.decode(source, handle, output, context),
        }
    }
}
