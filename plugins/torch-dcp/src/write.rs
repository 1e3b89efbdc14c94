//! Plans the output checkpoint. In this plan, each tensor is a single chunk.

use crate::members::DATA_SUFFIX;
use crate::written::{DcpChunk, DcpTensor, lay_out, unsupported_reason};
use tensorferry_sdk::{
    CatalogView, Context, Error, LayoutSink, Result, Role, ShardTag, Target, TensorPlan, TensorWriter,
};

#[derive(Debug, Default)]
pub(crate) struct Writer {
    /// Tag in the name of the data file.
    pub(crate) tag: ShardTag,
}

impl TensorWriter for Writer {
    fn plan(
        &self,
        catalog: &dyn CatalogView,
        target: &Target,
        layout: &mut dyn LayoutSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        if let Target::File(path) = target {
            return Err(Error::usage("a distributed checkpoint is a folder, not a file")
                .file(path)
                .hint(format!("name the output {path}/")));
        }
        let mut tensors = Vec::new();
        for id in catalog.tensor_ids() {
            context.check_cancelled()?;
            let view = catalog.tensor(id);
            if let Some(why) = unsupported_reason(view.dtype, view.shape) {
                layout.omit(id, &why)?;
                continue;
            }
            let chunk =
                DcpChunk { tensor: id, offsets: vec![0; view.shape.len()], sizes: view.shape.to_vec() };
            let shape = view.shape.to_vec();
            tensors.push(DcpTensor {
                name: view.name.to_owned(),
                dtype: view.dtype,
                shape,
                chunks: vec![chunk],
            });
        }
        let plan = lay_out(&tensors, &[], "", self.tag, catalog, layout)?;
        // Matching files may be from other ranks or from earlier runs.
        layout.supersedes(&format!("__*{DATA_SUFFIX}"), Role::Data)?;
        Ok(Box::new(plan))
    }
}
