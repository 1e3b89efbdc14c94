//! A watcher is notified of a conversion's progress, and may stop it before the output becomes
//! visible.

use crate::report::Report;
use std::path::PathBuf;
use tensorferry_core::formats::used::UsedFormat;
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_publish::stage::Destination;
use tensorferry_sdk::Result;

/// Observes a conversion. A function that takes a number of bytes is a watcher that never stops a
/// commit.
pub trait Watch {
    /// Called with the number of bytes to copy, before the first one is copied.
    fn begun(&self, bytes: u64);

    /// Called when objects of a store are about to become visible to be compared with the input;
    /// they are removed if they differ. Not called for objects that are committed at once. An error
    /// ends the conversion with nothing visible.
    fn before_visible(&self, objects: Vec<(PathBuf, FileIdentity)>) -> Result<()> {
        let _ = objects;
        Ok(())
    }

    /// Called when everything is staged, checked and, with `--verify`, verified. An error ends the
    /// conversion with nothing left behind.
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
    pub destination: &'a Destination,
    /// The format of the output.
    pub writer: UsedFormat,
    pub report: &'a Report,
    /// Every file that was read, with its identity at that time.
    pub inputs: Vec<(PathBuf, FileIdentity)>,
    /// The output's files under their final names, with the identities that distinguish them from
    /// any other files.
    pub outputs: Vec<(PathBuf, FileIdentity)>,
}
