//! A watcher is told how a conversion goes, and asked before its output becomes visible.

use crate::convert::report::Report;
use crate::formats::registry::RegisteredFormat;
use crate::publish::commit::Identity;
use crate::publish::stage::Destination;
use std::path::PathBuf;
use tensorferry_sdk::Result;

/// Who watches a conversion. A function that takes a number of bytes is one: it may always commit.
pub trait Watch {
    /// How many bytes will be copied, before the first one moves.
    fn begun(&self, bytes: u64);

    /// Everything is staged, checked and, where that was asked for, verified.
    ///
    /// # Errors
    /// Why it may not become visible; nothing of it is left then.
    fn before_commit(&self, ready: &Ready<'_>) -> Result<()> {
        let _ = ready;
        Ok(())
    }
}

impl<F: Fn(u64) + ?Sized> Watch for F {
    fn begun(&self, bytes: u64) {
        self(bytes);
    }
}

/// A conversion that only has to be committed.
#[derive(Debug)]
pub struct Ready<'a> {
    /// Where the output will be.
    pub destination: &'a Destination,
    /// The format that was written.
    pub writer: Used,
    /// What is known so far.
    pub report: &'a Report,
    /// Every file that was read, and what it was then.
    pub inputs: Vec<(PathBuf, Identity)>,
    /// The output's files under their final names, and what will tell them from any others.
    pub outputs: Vec<(PathBuf, Identity)>,
}

/// A format that took part, and the revision of what it makes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Used {
    /// The format's id.
    pub id: String,
    /// Its output revision.
    pub revision: u32,
}

impl Used {
    /// Of several, each once.
    pub(crate) fn all<'a>(formats: impl Iterator<Item = &'a RegisteredFormat>) -> Vec<Self> {
        let mut used: Vec<Self> = formats.map(Self::of).collect();
        used.sort();
        used.dedup();
        used
    }

    /// Of a loaded format.
    #[must_use]
    pub fn of(format: &RegisteredFormat) -> Self {
        Self { id: format.description.id.clone(), revision: format.description.output_revision }
    }
}
