//! Plans the output, which is a `torch_dist` checkpoint, or rank folders for the requested grid.

mod dist;
mod ranks;

use crate::like::TemplateRun;
use crate::run_folder::{RELEASE, TRACKER};
use tensorferry_megatron_model::GridSize;
use tensorferry_sdk::{
    CatalogView, Context, Error, LayoutSink, OptionSpec, Options, Result, Role, Side, Target, TensorPlan,
    TensorWriter, TypedOption,
};

const LIKE: TypedOption<Option<String>> =
    TypedOption::source(Side::Writer, "like", "run that provides the arguments of the output");
const TENSOR: TypedOption<Option<u64>> =
    TypedOption::integer(Side::Writer, "tensor_parallel", 1..=1024, "write rank folders for N tensor ranks");
const PIPELINE: TypedOption<Option<u64>> =
    TypedOption::integer(Side::Writer, "pipeline_parallel", 1..=1024, "write rank folders for N stages");

pub(crate) fn options() -> Vec<OptionSpec> {
    vec![LIKE.spec(), TENSOR.spec(), PIPELINE.spec()]
}

#[derive(Debug)]
pub(crate) struct Writer {
    like: Option<String>,
    /// Grid of the rank folders, or `None` for a `torch_dist` checkpoint.
    size: Option<GridSize>,
}

impl Writer {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let (like, tensor, stages) = (LIKE.get(options)?, TENSOR.get(options)?, PIPELINE.get(options)?);
        let is_asked = tensor.or(stages).is_some();
        if is_asked && like.is_none() {
            return Err(Error::usage("rank files need the arguments of a run, which the tensors do not contain")
                .hint("pass -o like=RUN with a run of the same model; without -o tensor_parallel and -o pipeline_parallel, \
                       ferry writes torch_dist, which Megatron loads into any number of ranks"));
        }
        let size = GridSize { tensor: tensor.unwrap_or(1), stages: stages.unwrap_or(1), experts: 1 };
        Ok(Self { like, size: Some(size).filter(|_| is_asked) })
    }
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
            return Err(Error::usage("a Megatron run is a folder, not a file")
                .file(path)
                .hint(format!("name the output {path}/")));
        }
        let like = self.like.as_deref().map(|path| TemplateRun::open(path, context)).transpose()?;
        let iteration = like.as_ref().and_then(|like| u64::try_from(like.iteration?).ok());
        let (folder, tracked) = match iteration {
            Some(iteration) => (format!("iter_{iteration:07}"), iteration.to_string()),
            None => (RELEASE.to_owned(), RELEASE.to_owned()),
        };
        let plan: Box<dyn TensorPlan> = match (self.size, &like) {
            (Some(size), Some(like)) => Box::new(ranks::plan(catalog, size, like, &folder, layout)?),
            _ => Box::new(dist::plan(catalog, like.as_ref(), &folder, layout, context)?),
        };
        let tracker = layout.file(TRACKER, Role::Index)?;
        layout.bytes(tracker, tracked.as_bytes())?;
        Ok(plan)
    }
}
