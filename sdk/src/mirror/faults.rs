//! Faults are errors that a plugin is to blame for, and those that its destructors could not return.

use super::guard::received;
use crate::{Error, ErrorKind, Result};
use std::sync::{Mutex, PoisonError};
use tensorferry_abi::AbiResult;

/// Who is called, and what went wrong where no call could say it: destructors.
#[derive(Debug)]
pub struct Faults {
    plugin: String,
    found: Mutex<Vec<Error>>,
}

impl Faults {
    pub(super) fn of(plugin: &str) -> Self {
        Self { plugin: plugin.to_owned(), found: Mutex::default() }
    }

    /// Names the plugin in an error that is its own fault.
    #[must_use]
    pub fn blame(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::Plugin {
            error.context(format_args!("plugin {}", self.plugin))
        } else {
            error
        }
    }

    /// Keeps what a close said; the host asks for it before it commits.
    pub(super) fn closed(&self, result: AbiResult<()>) {
        if let Err(error) = received(result) {
            self.found.lock().unwrap_or_else(PoisonError::into_inner).push(self.blame(error));
        }
    }

    /// The first fault since the last call.
    ///
    /// # Errors
    /// That fault.
    pub fn check(&self) -> Result<()> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.drain(..).next().map_or(Ok(()), Err)
    }
}
