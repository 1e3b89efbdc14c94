//! Reads a checkpoint: finds its files, reads what the user wants of them, and fills the catalog.

use crate::found::Found;
use crate::rank_files::{self, RankFiles};
use crate::{output, stages, universal};
use tensorferry_sdk::{CatalogSink, Context, Options, Result, Source, TensorDecoder, TensorReader};

/// What the user wants of a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum What {
    /// The weights in full precision, as they are trained.
    #[default]
    Fp32,
    /// The module as it ran, in whatever precision.
    Model,
    /// What the optimizer keeps.
    Optimizer,
}

impl What {
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
    what: What,
    tag: Option<String>,
}

impl Reader {
    pub(crate) fn new(options: &Options) -> Self {
        let what = What::ALL.into_iter().find(|what| options.text("what") == Some(what.word()));
        Self { what: what.unwrap_or_default(), tag: options.text("tag").map(str::to_owned) }
    }

    fn answer(&self, found: &mut Found<'_>, files: &RankFiles) -> Result<crate::answer::Answer> {
        match (self.what, files.is_universal) {
            (What::Model, _) => stages::module(found, files),
            (What::Fp32, false) => stages::weights(found, files),
            (What::Fp32, true) => universal::weights(found, files),
            (What::Optimizer, false) => stages::optimizer(found, files),
            (What::Optimizer, true) => universal::optimizer(found, files),
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
        let mut found = Found::new(source, context);
        let answer = self.answer(&mut found, &files)?;
        // What the user does not want of the checkpoint is no file that was overlooked.
        files.all().try_for_each(|file| source.open(file).map(drop))?;
        let (storages, globals, calls) = found.finish()?;
        globals.iter().try_for_each(|global| catalog.global(global))?;
        calls.report(catalog)?;
        let widened = output::write(&answer, &storages, self.what == What::Fp32, catalog, context)?;
        Ok(Box::new(widened))
    }
}
