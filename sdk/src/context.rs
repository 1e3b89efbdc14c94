//! A context is what a plugin may know of the run that it serves.

use crate::{Error, Limits, Result};

/// The limits, a way to say something to the user, and whether the user has cancelled.
pub trait Context: Send + Sync {
    /// The bounds for this run.
    fn limits(&self) -> &Limits;

    /// Whether the user has ended the run; long loops ask now and then.
    fn is_cancelled(&self) -> bool;

    /// Tells the user something that is neither an error nor a loss; one line.
    fn note(&self, message: &str);

    /// An error once the user has ended the run.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    fn check_cancelled(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::cancelled("ended by the user")) } else { Ok(()) }
    }
}

/// A context for unit tests: it is never cancelled, and keeps the notes.
#[derive(Debug, Default)]
pub struct MemoryContext {
    /// The limits that it gives.
    pub limits: Limits,
    notes: std::sync::Mutex<Vec<String>>,
}

impl MemoryContext {
    /// A context with `limits`.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, notes: std::sync::Mutex::default() }
    }

    /// What was noted so far.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().map(|notes| notes.clone()).unwrap_or_default()
    }
}

impl Context for MemoryContext {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn is_cancelled(&self) -> bool {
        false
    }

    fn note(&self, message: &str) {
        if let Ok(mut notes) = self.notes.lock() {
            notes.push(message.to_owned());
        }
    }
}
