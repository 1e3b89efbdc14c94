//! Reads a checkpoint: finds its files, reads what the user wants of them, and fills the catalog.

use crate::collector::Collector;
use crate::rank_files::{self, RankFiles};
use crate::{output, parallel, stages, universal};
use tensorferry_sdk::{
    CatalogSink, Context, NothingEncoded, OptionSpec, Options, Result, Side, Source, TensorDecoder,
    TensorReader, TypedOption,
};

/// What the user wants of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Selection {
    /// The weights in full precision, as they are trained.
    Fp32,
    /// The module as it ran, in whatever precision.
    Model,
    /// What the optimizer keeps.
    Optimizer,
}

const WHAT: TypedOption<Selection> = TypedOption::choice(
    Side::Reader,
    "what",
    &[("fp32", Selection::Fp32), ("model", Selection::Model), ("optimizer", Selection::Optimizer)],
    "the trained weights, the module as it ran, or the optimizer's state",
);
const REPLICATED: TypedOption<bool> = TypedOption::choice(
    Side::Reader,
    "replicated",
    &[("equal", false), ("first", true)],
    "what all tensor ranks have must be equal, or the first rank's is taken",
);
const TAG: TypedOption<Option<String>> =
    TypedOption::text(Side::Reader, "tag", "the folder to read, if not the one that latest names");

/// What the format declares.
pub(crate) fn options() -> Vec<OptionSpec> {
    vec![WHAT.spec(), TAG.spec(), REPLICATED.spec()]
}

/// Reads DeepSpeed's checkpoints.
#[derive(Debug)]
pub(crate) struct Reader {
    what: Selection,
    takes_first: bool,
    tag: Option<String>,
}

impl Reader {
    /// A reader with these options.
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self { what: WHAT.get(options)?, takes_first: REPLICATED.get(options)?, tag: TAG.get(options)? })
    }

    fn select(
        &self,
        collector: &mut Collector<'_>,
        files: &RankFiles,
    ) -> Result<crate::selected::SelectedTensors> {
        match (self.what, files.is_universal) {
            (Selection::Model, _) => stages::module(collector, files),
            (Selection::Fp32, false) => stages::weights(collector, files),
            (Selection::Fp32, true) => universal::weights(collector, files),
            (Selection::Optimizer, false) => stages::optimizer(collector, files),
            (Selection::Optimizer, true) => universal::optimizer(collector, files),
        }
    }
}

impl TensorReader for Reader {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        let files = rank_files::find(source, self.tag.as_deref())?;
        let mut collector = Collector::new(source, context);
        if self.what == Selection::Model && files.is_parallel() {
            let module = parallel::read(&mut collector, &files)?;
            files.all().try_for_each(|file| source.open(file).map(drop))?;
            let (storages, globals, calls) = collector.finish()?;
            globals.iter().try_for_each(|global| catalog.global(global))?;
            calls.report(catalog)?;
            module.write(source, &storages, self.takes_first, catalog, context)?;
            return Ok(Box::new(NothingEncoded));
        }
        files.check_alone()?;
        let selected = self.select(&mut collector, &files)?;
        // Selection the user does not want of the checkpoint is no file that was overlooked.
        files.all().try_for_each(|file| source.open(file).map(drop))?;
        let (storages, globals, calls) = collector.finish()?;
        globals.iter().try_for_each(|global| catalog.global(global))?;
        calls.report(catalog)?;
        let widened = output::write(&selected, &storages, self.what == Selection::Fp32, catalog, context)?;
        Ok(Box::new(widened))
    }
}
