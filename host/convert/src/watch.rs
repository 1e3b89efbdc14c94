//! A watcher is told how a conversion goes, and asked before its output becomes visible.

use crate::report::Report;
use std::path::PathBuf;
use tensorferry_core::formats::used::UsedFormat;
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_publish::stage::Destination;
use tensorferry_sdk::Result;

/// Who watches a conversion. A function that takes a number of bytes is one: it may always commit.
pub trait Watch {
    /// How many bytes will be copied, before the first one moves.
    fn begun(&self, bytes: u64);

    /// Objects of a store are about to become visible, to be compared with what was read; they are removed where they differ.
    /// Of what is committed at once nothing is said.
    ///
    /// # Errors
    /// Ends the conversion, with nothing visible.
    fn before_visible(&self, objects: Vec<(PathBuf, FileIdentity)>) -> Result<()> {
        let _ = objects;
        Ok(())
    }

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
    pub writer: UsedFormat,
    /// What is known so far.
    pub report: &'a Report,
    /// Every file that was read, and what it was then.
    pub inputs: Vec<(PathBuf, FileIdentity)>,
    /// The output's files under their final names, and what will tell them from any others.
    pub outputs: Vec<(PathBuf, FileIdentity)>,
}
