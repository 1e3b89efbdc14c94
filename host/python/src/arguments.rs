//! Converts Python arguments to the engine's arguments.

use crate::errors::OrRaise;
use pyo3::prelude::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use tensorferry::request::{LossPolicy, Part};
use tensorferry::{Error, LossKind, Result};

/// Options of a format, as pairs of a key and a value.
pub(crate) type Options = Vec<(String, String)>;

/// The arguments for opening an input.
#[derive(Debug, Clone)]
pub(crate) struct InputArguments {
    pub(crate) path: PathBuf,
    /// Id of the format.
    pub(crate) format: Option<String>,
    pub(crate) part: Option<String>,
    /// Input options.
    pub(crate) options: Options,
    /// Whether links to weights and records outside the input's folder are followed.
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
    /// Returns the requested part, or the default.
    pub(crate) fn part(&self) -> Part {
        self.part.as_deref().map_or_else(Part::default, Part::parse)
    }

    /// Converts the arguments to options of the `tensorferry` crate.
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

/// The arguments for writing an output.
#[derive(Debug, Clone)]
pub(crate) struct OutputArguments {
    pub(crate) path: PathBuf,
    /// Id of the format.
    pub(crate) format: Option<String>,
    /// Output options.
    pub(crate) options: Options,
    /// Whether an existing output is replaced.
    pub(crate) force: bool,
    /// Whether the output is flushed to disk.
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
    /// Converts the arguments to options of the `tensorferry` crate.
    pub(crate) fn save_options(&self, metadata: BTreeMap<String, String>) -> tensorferry::SaveOptions {
        let mut options = tensorferry::SaveOptions::new().force(self.force).sync(self.sync);
        if let Some(format) = &self.format {
            options = options.to(format);
        }
        options = self.options.iter().fold(options, |options, (key, value)| options.option(key, value));
        metadata.into_iter().fold(options, |options, (key, value)| options.metadata(key, value))
    }
}

/// The policy that determines which losses are errors.
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
        let error = Error::usage(format!("unknown kind of loss {word:?}"));
        error.hint(format!("the kinds are {}", words.join(", ")))
    })
}
