//! Faults are errors of a plugin, including those that its destructors could not return.
//!
//! An object keeps the library that created it alive. A failing destructor is a fault of its plugin
//! (exit code 5). The host drops every object except the format, and asks for faults, before the
//! commit.

use crate::{Error, ErrorKind, Result};
use std::any::Any;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tensorferry_abi::{Failure, Handle, Owned, Table};

/// The name of a plugin, and errors that no call could return, such as those of destructors.
#[derive(Debug)]
pub struct Faults {
    plugin: String,
    format: OnceLock<String>,
    found: Mutex<Vec<Error>>,
}

impl Faults {
    pub(super) fn of(plugin: &str) -> Self {
        Self { plugin: plugin.to_owned(), format: OnceLock::new(), found: Mutex::default() }
    }

    /// Makes errors name this format in addition to the plugin, for a library with several formats.
    pub fn name_format(&self, id: &str) {
        let _ = self.format.set(format!(", format {id}"));
    }

    /// Adds the name of the plugin to an error of kind [`ErrorKind::Plugin`].
    #[must_use]
    pub fn blame(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::Plugin { self.name_plugin(error) } else { error }
    }

    fn name_plugin(&self, error: Error) -> Error {
        let format = self.format.get().map_or("", String::as_str);
        error.context(format_args!("plugin {}{format}", self.plugin))
    }

    pub(super) fn keep(&self, fault: Error) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
    }

    /// Returns the first fault since the last call as an error.
    ///
    /// # Errors
    /// Returns an error if there is a fault.
    pub fn check(&self) -> Result<()> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.drain(..).next().map_or(Ok(()), Err)
    }
}

/// An object of a plugin. It keeps its parent alive, and stores errors of its destructor, which the
/// host checks before it commits.
pub(super) struct Plugged<T: Table> {
    object: Owned<T>,
    pub(super) faults: Arc<Faults>,
    _parent: Option<Arc<dyn Any + Send + Sync>>,
}

impl<T: Table> Plugged<T> {
    pub(super) fn new(object: Owned<T>, faults: Arc<Faults>) -> Arc<Self> {
        Arc::new(Self { object, faults, _parent: None })
    }

    /// Wraps the object that a call of this object returned.
    pub(super) fn child<C: Table>(
        self: &Arc<Self>,
        object: Result<Owned<C>, Failure>,
    ) -> Result<Arc<Plugged<C>>>
    where
        Self: Send + Sync + 'static,
    {
        let (object, faults) = (self.answer(object)?, self.faults.clone());
        Ok(Arc::new(Plugged { object, faults, _parent: Some(self.clone()) }))
    }

    /// Converts the result of a call of this object.
    pub(super) fn answer<A>(&self, answer: Result<A, Failure>) -> Result<A> {
        answer.map_err(|failure| {
            if failure.is_missing() {
                return self.faults.name_plugin(failure.into());
            }
            self.blame(failure)
        })
    }

    /// Converts the result of a call of this object, with the default value if the plugin leaves
    /// the slot null.
    pub(super) fn answer_if_offered<A: Default>(&self, answer: Result<A, Failure>) -> Result<A> {
        self.answer_or(answer, A::default())
    }

    /// Converts the result of a call of this object, with `usual` if the plugin leaves the slot
    /// null.
    pub(super) fn answer_or<A>(&self, answer: Result<A, Failure>, usual: A) -> Result<A> {
        match answer {
            Err(failure) if failure.is_missing() => Ok(usual),
            answer => self.answer(answer),
        }
    }

    /// Stores the failure of a call whose counterpart in the SDK cannot fail. A null slot is not a
    /// failure.
    #[cfg(feature = "arrow-60")]
    pub(super) fn answer_or_fault(&self, answer: Result<(), Failure>) {
        if let Err(fault) = self.answer_if_offered(answer) {
            self.faults.keep(fault);
        }
    }

    pub(super) fn blame(&self, failure: impl Into<Error>) -> Error {
        self.faults.blame(failure.into())
    }
}

impl<T: Table> std::ops::Deref for Plugged<T> {
    type Target = Handle<T>;

    fn deref(&self) -> &Handle<T> {
        &self.object
    }
}

impl<T: Table> Drop for Plugged<T> {
    fn drop(&mut self) {
        if let Err(failure) = self.object.close() {
            self.faults.keep(self.blame(failure));
        }
    }
}
