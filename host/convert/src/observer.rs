//! An observer is notified of a conversion's progress, and can stop the conversion before its
//! output becomes visible.

use crate::report::Report;
use std::path::PathBuf;
use tensorferry_core::formats::used::UsedFormat;
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_publish::stage::Destination;
use tensorferry_sdk::Result;

/// An observer of a conversion. A function with one parameter, the number of bytes, is an observer
/// that never stops the conversion.
pub trait ConversionObserver {
    /// Called with the number of bytes to copy, before the first byte is copied.
    fn before_copy(&self, bytes: u64);

    /// Called just before objects in a store become visible. Visible objects are then compared with
    /// the input, and are removed if they differ. Not called for objects that are committed without
    /// this comparison. If this method returns an error, the conversion ends and no object becomes
    /// visible.
    fn before_visible(&self, objects: Vec<(PathBuf, FileIdentity)>) -> Result<()> {
        let _ = objects;
        Ok(())
    }

    /// Called when the whole output is staged, checked and, with `--verify`, verified. If this
    /// method returns an error, the conversion ends and leaves no output behind.
    fn before_commit(&self, ready: &PreparedCommit<'_>) -> Result<()> {
        let _ = ready;
        Ok(())
    }
}

impl<F: Fn(u64) + ?Sized> ConversionObserver for F {
    fn before_copy(&self, bytes: u64) {
        self(bytes);
    }
}

/// A conversion that is complete except for the commit.
#[derive(Debug)]
pub struct PreparedCommit<'a> {
    pub destination: &'a Destination,
    /// The format of the output.
    pub writer: UsedFormat,
    pub report: &'a Report,
    /// All files that were read, with their identities when they were opened.
    pub inputs: Vec<(PathBuf, FileIdentity)>,
    /// The output's files under their final names. The identity of each file distinguishes it from
    /// all other files.
    pub outputs: Vec<(PathBuf, FileIdentity)>,
}
