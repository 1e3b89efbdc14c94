//! Faults are errors of a plugin. Faults include the errors of destructors, which cannot return
//! errors.
//!
//! An object keeps the library that created it alive. A failing destructor is a fault of its plugin
//! (exit code 5). Before it commits the output, the host drops every object except the format, and
//! checks for faults.

use crate::{Error, ErrorKind, Result};
use std::any::Any;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tensorferry_abi::{Failure, Handle, Owned, Table};

/// The name of a plugin, and errors that no call could return, such as errors in destructors.
#[derive(Debug)]
pub struct PluginFaults {
    plugin: String,
    format: OnceLock<String>,
    found: Mutex<Vec<Error>>,
}

impl PluginFaults {
    pub(super) fn of(plugin: &str) -> Self {
        Self { plugin: plugin.to_owned(), format: OnceLock::new(), found: Mutex::default() }
    }

    /// Adds the name of this format to later errors, in addition to the name of the plugin. The
    /// format's name is useful if a library contains several formats.
    pub fn name_format(&self, id: &str) {
        let _ = self.format.set(format!(", format {id}"));
    }

    /// Adds the name of the plugin to an error of kind [`ErrorKind::Plugin`].
    #[must_use]
    pub fn attribute_error(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::Plugin { self.name_plugin(error) } else { error }
    }

    fn name_plugin(&self, error: Error) -> Error {
        let format = self.format.get().map_or("", String::as_str);
        error.context(format_args!("plugin {}{format}", self.plugin))
    }

    pub(super) fn keep(&self, fault: Error) {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
    }

    /// Checks for faults since the last call.
    ///
    /// # Errors
    /// Returns the first fault as an error if there is one.
    pub fn check(&self) -> Result<()> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.drain(..).next().map_or(Ok(()), Err)
    }
}

/// An object of a plugin. A `PluginObject` keeps its parent alive, and stores errors of its
/// destructor. The host checks these errors before it commits the output.
pub(super) struct PluginObject<T: Table> {
    object: Owned<T>,
    pub(super) faults: Arc<PluginFaults>,
    _parent: Option<Arc<dyn Any + Send + Sync>>,
}

impl<T: Table> PluginObject<T> {
    pub(super) fn new(object: Owned<T>, faults: Arc<PluginFaults>) -> Arc<Self> {
        Arc::new(Self { object, faults, _parent: None })
    }

    /// Wraps an object that a call to this object returned.
    pub(super) fn child<C: Table>(
        self: &Arc<Self>,
        object: Result<Owned<C>, Failure>,
    ) -> Result<Arc<PluginObject<C>>>
    where
        Self: Send + Sync + 'static,
    {
        let (object, faults) = (self.result(object)?, self.faults.clone());
        Ok(Arc::new(PluginObject { object, faults, _parent: Some(self.clone()) }))
    }

    /// Converts the result of a call to this object to an SDK result.
    pub(super) fn result<A>(&self, answer: Result<A, Failure>) -> Result<A> {
        answer.map_err(|failure| {
            if failure.is_missing() {
                return self.faults.name_plugin(failure.into());
            }
            self.attribute_error(failure)
        })
    }

    /// Converts the result of a call to this object, or returns the default value if the plugin
    /// leaves the slot null.
    pub(super) fn result_or_default<A: Default>(&self, answer: Result<A, Failure>) -> Result<A> {
        self.result_or(answer, A::default())
    }

    /// Converts the result of a call to this object, or returns `usual` if the plugin leaves the
    /// slot null.
    pub(super) fn result_or<A>(&self, answer: Result<A, Failure>, usual: A) -> Result<A> {
        match answer {
            Err(failure) if failure.is_missing() => Ok(usual),
            answer => self.result(answer),
        }
    }

    /// Stores the failure of a call whose counterpart in the SDK cannot fail. A null slot is not a
    /// failure.
    #[cfg(feature = "arrow-60")]
    pub(super) fn record_fault(&self, answer: Result<(), Failure>) {
        if let Err(fault) = self.result_or_default(answer) {
            self.faults.keep(fault);
        }
    }

    pub(super) fn attribute_error(&self, failure: impl Into<Error>) -> Error {
        self.faults.attribute_error(failure.into())
    }
}

impl<T: Table> std::ops::Deref for PluginObject<T> {
    type Target = Handle<T>;

    fn deref(&self) -> &Handle<T> {
        &self.object
    }
}

impl<T: Table> Drop for PluginObject<T> {
    fn drop(&mut self) {
        if let Err(failure) = self.object.close() {
            self.faults.keep(self.attribute_error(failure));
        }
    }
}
