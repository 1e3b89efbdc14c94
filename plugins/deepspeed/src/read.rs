//! Reads a checkpoint: finds its files, reads the selected tensors, and fills the catalog.

use crate::collector::Collector;
use crate::rank_files::{self, RankFiles};
use crate::{output, parallel, stages, universal};
use tensorferry_sdk::{
    CatalogSink, Context, NothingEncoded, OptionSpec, Options, Result, Side, Source, TensorDecoder,
    TensorReader, TypedOption,
};

/// The part of a checkpoint to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Selection {
    /// The trained weights in full precision.
    Fp32,
    /// The module in training precision.
    Model,
    /// The state of the optimizer.
    Optimizer,
}

const STATE: TypedOption<Selection> = TypedOption::choice(
    Side::Reader,
    "state",
    &[("fp32", Selection::Fp32), ("model", Selection::Model), ("optimizer", Selection::Optimizer)],
    "trained weights, module as it ran, or state of the optimizer",
);
const REPLICATED: TypedOption<bool> = TypedOption::choice(
    Side::Reader,
    "replicated",
    &[("equal", false), ("first", true)],
    "require equal copies on all tensor ranks, or use the first rank's",
);
const TAG: TypedOption<Option<String>> =
    TypedOption::text(Side::Reader, "tag", "folder to read instead of the one that latest names");

pub(crate) fn options() -> Vec<OptionSpec> {
    vec![STATE.spec(), TAG.spec(), REPLICATED.spec()]
}

#[derive(Debug)]
pub(crate) struct Reader {
    what: Selection,
    takes_first: bool,
    tag: Option<String>,
}

impl Reader {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        Ok(Self { what: STATE.get(options)?, takes_first: REPLICATED.get(options)?, tag: TAG.get(options)? })
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
        files.check_data_parallel_only()?;
        let selected = self.select(&mut collector, &files)?;
        // Open all files of the checkpoint, including files that the selection does not need.
        files.all().try_for_each(|file| source.open(file).map(drop))?;
        let (storages, globals, calls) = collector.finish()?;
        globals.iter().try_for_each(|global| catalog.global(global))?;
        calls.report(catalog)?;
        let widened = output::write(&selected, &storages, self.what == Selection::Fp32, catalog, context)?;
        Ok(Box::new(widened))
    }
}
