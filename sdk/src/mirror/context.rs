//! Passes a [`Context`] across the boundary.

use super::numbers::{level, level_number};
use super::source::{LentSource, RemoteSource};
use crate::{Context, Level, Limits, Purpose, Result, Source};
use std::sync::Arc;
use tensorferry_abi::{Borrowed, ContextCalls, ContextTable, Failure, Owned, SourceTable, UNKNOWN};

/// The attribute that indicates whether the output is new.
const OUTPUT_IS_NEW: &str = "output_is_new";
/// The attribute that indicates whether `input_folder` returns a folder.
const INPUT_IS_FOLDER: &str = "input_is_folder";

pub(super) struct LentContext<'a>(pub(super) &'a dyn Context);

impl ContextCalls for LentContext<'_> {
    fn limit(&self, name: &str) -> Result<u64, Failure> {
        Ok(self.0.limits().get(name).unwrap_or(UNKNOWN))
    }

    fn cancelled(&self) -> Result<bool, Failure> {
        Ok(self.0.is_cancelled())
    }

    fn log(&self, number: u32, message: &str) -> Result<(), Failure> {
        self.0.log(level(number), message);
        Ok(())
    }

    fn progress(&self, done: u64, total: u64) -> Result<(), Failure> {
        self.0.progress(done, total);
        Ok(())
    }

    fn purpose(&self) -> Result<u32, Failure> {
        Ok(self.0.purpose().0)
    }

    fn threads(&self) -> Result<u32, Failure> {
        Ok(u32::try_from(self.0.threads()).unwrap_or(u32::MAX))
    }

    fn open(&self, path: &str) -> Result<Owned<SourceTable>, Failure> {
        Ok(Owned::give(LentSource(self.0.open(path)?)))
    }

    fn input_folder(&self) -> Result<Owned<SourceTable>, Failure> {
        let folder = self.0.input_folder()?.ok_or_else(|| Failure::contract("the input is not a folder"))?;
        Ok(Owned::give(LentSource(folder)))
    }

    fn attribute(&self, name: &str) -> Result<u64, Failure> {
        Ok(match name {
            OUTPUT_IS_NEW => self.0.output_is_new().into(),
            INPUT_IS_FOLDER => self.0.input_folder()?.is_some().into(),
            _ => UNKNOWN,
        })
    }
}

pub(super) struct RemoteContext<'a> {
    object: Borrowed<'a, ContextTable>,
    limits: Limits,
    purpose: Purpose,
    output_is_new: bool,
    threads: usize,
}

impl<'a> RemoteContext<'a> {
    pub(super) fn new(object: Borrowed<'a, ContextTable>) -> Result<Self> {
        let mut failed = None;
        let limits = Limits::from_lookup(|name| match object.limit(name) {
            Ok(limit) => Some(limit).filter(|&limit| limit != UNKNOWN),
            Err(failure) => {
                failed = Some(failure);
                None
            }
        });
        if let Some(failure) = failed {
            return Err(failure.into());
        }
        let purpose = Purpose(object.purpose()?);
        let output_is_new = object.attribute(OUTPUT_IS_NEW)? == 1;
        let threads = object.threads()?.max(1) as usize;
        Ok(Self { object, limits, purpose, output_is_new, threads })
    }
}

impl Context for RemoteContext<'_> {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn is_cancelled(&self) -> bool {
        // If the host cannot answer, assume that the run was canceled.
        self.object.cancelled().unwrap_or(true)
    }

    fn log(&self, level: Level, message: &str) {
        // It is not an error if the host rejects a line.
        let _ = self.object.log(level_number(level), message);
    }

    fn progress(&self, done: u64, total: u64) {
        // It is not an error if the host rejects a progress report.
        let _ = self.object.progress(done, total);
    }

    fn purpose(&self) -> Purpose {
        self.purpose
    }

    fn open(&self, path: &str) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(RemoteSource::new(self.object.open(path)?)?))
    }

    fn input_folder(&self) -> Result<Option<Arc<dyn Source>>> {
        // A revision 1.0 host does not know the attribute, and does not provide the folder.
        if self.object.attribute(INPUT_IS_FOLDER)? != 1 {
            return Ok(None);
        }
        Ok(Some(Arc::new(RemoteSource::new(self.object.input_folder()?)?)))
    }

    fn output_is_new(&self) -> bool {
        self.output_is_new
    }

    fn threads(&self) -> usize {
        self.threads
    }
}
