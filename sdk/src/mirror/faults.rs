//! Faults are errors that a plugin is to blame for, and those that its destructors could not return.

use crate::{Error, ErrorKind, Result};
use std::any::Any;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tensorferry_abi::{Failure, Handle, Owned, Table};

/// Who is called, and what went wrong where no call could say it: destructors.
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

    /// From now on, errors name this format next to the plugin: its library has several.
    pub fn name_format(&self, id: &str) {
        let _ = self.format.set(format!(", format {id}"));
    }

    /// Names the plugin in an error that is its own fault.
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

    /// The first fault since the last call.
    ///
    /// # Errors
    /// That fault.
    pub fn check(&self) -> Result<()> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.drain(..).next().map_or(Ok(()), Err)
    }
}

/// An object of a plugin. It keeps alive what it was made by, and what its destructor says is kept: the host asks
/// before it commits.
pub(super) struct Plugged<T: Table> {
    object: Owned<T>,
    pub(super) faults: Arc<Faults>,
    _parent: Option<Arc<dyn Any + Send + Sync>>,
}

impl<T: Table> Plugged<T> {
    pub(super) fn new(object: Owned<T>, faults: Arc<Faults>) -> Arc<Self> {
        Arc::new(Self { object, faults, _parent: None })
    }

    /// What a call of this object gave.
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

    /// What a call of this object gave.
    pub(super) fn answer<A>(&self, answer: Result<A, Failure>) -> Result<A> {
        answer.map_err(|failure| {
            if failure.is_missing() {
                return self.faults.name_plugin(failure.into());
            }
            self.blame(failure)
        })
    }

    /// What a call of this object gave; nothing, where the plugin leaves its slot null.
    pub(super) fn answer_if_offered<A: Default>(&self, answer: Result<A, Failure>) -> Result<A> {
        self.answer_or(answer, A::default())
    }

    /// What a call of this object gave; the usual, where the plugin leaves its slot null.
    pub(super) fn answer_or<A>(&self, answer: Result<A, Failure>, usual: A) -> Result<A> {
        match answer {
            Err(failure) if failure.is_missing() => Ok(usual),
            answer => self.answer(answer),
        }
    }

    /// What a call of this object gave whose counterpart in the SDK cannot fail: a failure is a fault, and a
    /// null slot says nothing.
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
