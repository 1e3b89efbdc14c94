//! A watcher is notified of a conversion's progress, and can stop the conversion before the output
//! becomes visible.

use crate::report::Report;
use std::path::PathBuf;
use tensorferry_core::formats::used::UsedFormat;
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_publish::stage::Destination;
use tensorferry_sdk::Result;

/// Observes a conversion. A function that takes a number of bytes is a watcher that never stops the
/// conversion.
pub trait Watch {
    /// Called with the number of bytes to copy, before the first one is copied.
    fn begun(&self, bytes: u64);

    /// Called just before objects of a store become visible. Visible objects are then compared with
    /// the input, and are removed if they differ. Not called for objects that are committed without
    /// this comparison. If this returns an error, the conversion ends and nothing becomes visible.
    fn before_visible(&self, objects: Vec<(PathBuf, FileIdentity)>) -> Result<()> {
        let _ = objects;
        Ok(())
    }

    /// Called when everything is staged, checked and, with `--verify`, verified. If this returns an
    /// error, the conversion ends and leaves nothing behind.
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

/// A conversion that is complete except for the commit.
#[derive(Debug)]
pub struct Ready<'a> {
    pub destination: &'a Destination,
    /// The format of the output.
    pub writer: UsedFormat,
    pub report: &'a Report,
    /// Every file that was read, with its identity at that time.
    pub inputs: Vec<(PathBuf, FileIdentity)>,
    /// The output's files under their final names. The identity of each distinguishes it from any
    /// other file.
    pub outputs: Vec<(PathBuf, FileIdentity)>,
}
