//! Plans runs: a `torch_dist` checkpoint, or rank folders for a grid that the user names.

mod dist;
mod ranks;

use crate::like::Like;
use crate::run_folder::{RELEASE, TRACKER};
use tensorferry_megatron_model::GridSize;
use tensorferry_sdk::{
    CatalogView, Context, Error, LayoutSink, OptionSpec, Options, Result, Role, Side, Target, TensorPlan,
    TensorWriter, TypedOption,
};

const LIKE: TypedOption<Option<String>> =
    TypedOption::source(Side::Writer, "like", "a run whose arguments the output has");
const TENSOR: TypedOption<Option<u64>> =
    TypedOption::integer(Side::Writer, "tensor_parallel", 1..=1024, "rank folders, of so many tensor ranks");
const PIPELINE: TypedOption<Option<u64>> =
    TypedOption::integer(Side::Writer, "pipeline_parallel", 1..=1024, "rank folders, of so many stages");

/// What the format declares.
pub(crate) fn options() -> Vec<OptionSpec> {
    vec![LIKE.spec(), TENSOR.spec(), PIPELINE.spec()]
}

/// Writes Megatron's checkpoints.
#[derive(Debug)]
pub(crate) struct Writer {
    like: Option<String>,
    /// The grid of rank folders, where these are asked for.
    size: Option<GridSize>,
}

impl Writer {
    /// A writer with these options.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let (like, tensor, stages) = (LIKE.get(options)?, TENSOR.get(options)?, PIPELINE.get(options)?);
        let is_asked = tensor.or(stages).is_some();
        if is_asked && like.is_none() {
            return Err(Error::usage("rank files hold the arguments of their run, which the tensors do not say")
                .expected("-o like=RUN, a run of the same model; or neither -o tensor_parallel nor -o pipeline_parallel: \
                           torch_dist, which Megatron loads into any number of ranks"));
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
            return Err(Error::usage("a run is a folder").file(path));
        }
        let like = self.like.as_deref().map(|path| Like::open(path, context)).transpose()?;
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
