//! Reads checkpoints of both versions.

use crate::bundle_tensors::{Labels, read_bundle};
use crate::locate::{Checkpoint, find};
use crate::options::ReadOptions;
use crate::v1::read_v1;
use tensorferry_sdk::{CatalogSink, Context, Result, Source, TensorDecoder, TensorReader};

#[derive(Debug)]
pub(crate) struct CheckpointReader {
    pub(crate) options: ReadOptions,
}

impl TensorReader for CheckpointReader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let (checkpoint, missing) = find(source, context.limits())?;
        if let Some(missing) = missing {
            catalog.loss(missing)?;
        }
        Ok(match checkpoint {
            Checkpoint::V2(prefix) => {
                let labels = |_: Option<&_>| Labels::new();
                Box::new(read_bundle(source, &prefix, &self.options, &labels, catalog, context)?)
            }
            Checkpoint::V1(files) => Box::new(read_v1(source, &files, catalog, context)?),
        })
    }
}
