//! Reads a checkpoint: finds its files, reads what the user wants of them, and fills the catalog.

use crate::collector::Collector;
use crate::rank_files::{self, RankFiles};
use crate::{output, stages, universal};
use tensorferry_sdk::{CatalogSink, Context, Options, Result, Source, TensorDecoder, TensorReader};

/// What the user wants of a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Selection {
    /// The weights in full precision, as they are trained.
    #[default]
    Fp32,
    /// The module as it ran, in whatever precision.
    Model,
    /// What the optimizer keeps.
    Optimizer,
}

impl Selection {
    pub(crate) const ALL: [Self; 3] = [Self::Fp32, Self::Model, Self::Optimizer];

    /// The option's value.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Fp32 => "fp32",
            Self::Model => "model",
            Self::Optimizer => "optimizer",
        }
    }
}

/// Reads DeepSpeed's checkpoints.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    what: Selection,
    tag: Option<String>,
}

impl Reader {
    pub(crate) fn new(options: &Options) -> Self {
        let what = Selection::ALL.into_iter().find(|what| options.text("what") == Some(what.word()));
        Self { what: what.unwrap_or_default(), tag: options.text("tag").map(str::to_owned) }
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
        let selected = self.select(&mut collector, &files)?;
        // What the user does not want of the checkpoint is no file that was overlooked.
        files.all().try_for_each(|file| source.open(file).map(drop))?;
        let (storages, globals, calls) = collector.finish()?;
        globals.iter().try_for_each(|global| catalog.global(global))?;
        calls.report(catalog)?;
        let widened = output::write(&selected, &storages, self.what == Selection::Fp32, catalog, context)?;
        Ok(Box::new(widened))
    }
}
