//! Arguments as the engine takes them.

use crate::errors::OrRaise;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tensorferry::request::{LossPolicy, Part};
use tensorferry::{Error, LossKind, Result};

/// Options: keys and their values as texts.
pub(crate) type Options = Vec<(String, String)>;

/// How an input is opened.
#[derive(Debug, Clone)]
pub(crate) struct InputArguments {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// The format's id.
    pub(crate) format: Option<String>,
    /// Which branch.
    pub(crate) part: Option<String>,
    /// The reader's.
    pub(crate) options: Options,
    /// Whether weights and records outside of its folder are read.
    pub(crate) follow_links: bool,
}

impl<'py> FromPyObject<'_, 'py> for InputArguments {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (path, format, part, options, follow_links) = object.extract()?;
        Ok(Self { path, format, part, options, follow_links })
    }
}

impl InputArguments {
    /// The part, where one is asked for.
    pub(crate) fn part(&self) -> Part {
        self.part.as_deref().map_or_else(Part::default, Part::parse)
    }

    /// For the façade.
    pub(crate) fn open_options(&self) -> tensorferry::OpenOptions {
        let mut options = tensorferry::OpenOptions::new();
        if let Some(format) = &self.format {
            options = options.from(format);
        }
        if let Some(part) = &self.part {
            options = options.part(part);
        }
        self.options.iter().fold(options, |options, (key, value)| options.option(key, value))
    }
}

/// How an output is written.
#[derive(Debug, Clone)]
pub(crate) struct OutputArguments {
    /// Where it comes to be.
    pub(crate) path: PathBuf,
    /// The format's id.
    pub(crate) format: Option<String>,
    /// The writer's.
    pub(crate) options: Options,
    /// Replaces what is there.
    pub(crate) force: bool,
    /// Outlasts a power cut.
    pub(crate) sync: bool,
}

impl<'py> FromPyObject<'_, 'py> for OutputArguments {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (path, format, options, force, sync) = object.extract()?;
        Ok(Self { path, format, options, force, sync })
    }
}

impl OutputArguments {
    /// For the façade.
    pub(crate) fn save_options(&self, metadata: BTreeMap<String, String>) -> tensorferry::SaveOptions {
        let mut options = tensorferry::SaveOptions::new().force(self.force).sync(self.sync);
        if let Some(format) = &self.format {
            options = options.to(format);
        }
        options = self.options.iter().fold(options, |options, (key, value)| options.option(key, value));
        metadata.into_iter().fold(options, |options, (key, value)| options.metadata(key, value))
    }
}

/// The kind of loss of a word.
///
/// # Errors
/// Usage, with the words that there are.
/// Which losses are errors.
pub(crate) struct LossArguments(pub(crate) LossPolicy);

impl<'py> FromPyObject<'_, 'py> for LossArguments {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let (strict, words): (bool, Vec<String>) = object.extract()?;
        let allowed = words.iter().map(|word| loss_kind(word)).collect::<Result<_>>();
        Ok(Self(LossPolicy { strict, allowed: allowed.or_raise(object.py())? }))
    }
}

fn loss_kind(word: &str) -> Result<LossKind> {
    LossKind::named(word).ok_or_else(|| {
        let words: Vec<&str> = LossKind::ALL.iter().map(|kind| kind.word()).collect();
        Error::usage("no kind of loss").expected(format!("one of {}", words.join(", "))).found(word)
    })
}
