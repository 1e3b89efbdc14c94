//! A context informs a plugin about the current conversion: its limits, its purpose, its threads,
//! and whether the user has canceled it.
//!
//! Record sets and record plans do not receive a context in their calls. After the user cancels a
//! run, a source or sink that the call uses returns an error, which ends the call.

use crate::{Error, Limits, Result, Source};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The purposes of reading an input: an open set of bits. A plugin tests for the purposes that it
/// knows ([`has`](Self::has)), and a later host may set additional bits. If a reader's tensor names
/// or omitted content depend on the purpose, it should have options that override these choices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Purpose(pub u32);

impl Purpose {
    /// Show the input. The reader returns all content, under the names that the input itself uses.
    pub const SHOW: Self = Self(1);
    /// Compare the input with an input of any format. The reader returns all content, under the
    /// names that a conversion produces.
    pub const COMPARE: Self = Self(2);
    /// Write the input in the same format again. The reader returns all content, under the names
    /// that the input itself uses.
    pub const COPY: Self = Self(4);
    /// Write the input in a different format that stores a tree of non-tensor state.
    pub const NESTED: Self = Self(8);
    /// Write the input in a different format that stores a flat list of tensors.
    pub const FLAT: Self = Self(16);
    /// Show records one by one, starting with the first. Often, only a few records are read. A
    /// record reader that converts records to lines itself does not need to scan all records for a
    /// schema.
    pub const LINES: Self = Self(32);
    /// Read every split once, to its end. A record reader may then guess the schema and the starts
    /// of splits. The reader's streams must either confirm the guess or fail with
    /// [`Error::wrong_guess`](crate::Error::wrong_guess). If a stream fails in this way, the host
    /// discards all rows and opens the input again for a different purpose. Any other stream error
    /// is final.
    pub const ONCE: Self = Self(64);

    /// Returns whether this set contains all of `other`.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl Default for Purpose {
    fn default() -> Self {
        Self::SHOW
    }
}

/// The importance of a log line for the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// Something failed, but the call continues.
    Error,
    /// The result is probably not what the user wants.
    Warning,
    /// Information that may be useful to the user.
    Note,
    /// Information for the plugin author, which is not shown to users.
    Detail,
}

/// The current run of a plugin: its limits, messages to the user, and cancellation.
pub trait Context: Send + Sync {
    /// Returns the limits of this run.
    fn limits(&self) -> &Limits;

    /// Returns whether the user has canceled the run. Long loops should check this regularly.
    fn is_cancelled(&self) -> bool;

    /// Shows the user one line. Do not use this for losses or for errors that end the call.
    fn log(&self, level: Level, message: &str);

    /// Shows the user a note. Do not use this for losses or errors.
    fn note(&self, message: &str) {
        self.log(Level::Note, message);
    }

    /// Reports the progress of a long call, such as indexing or a schema scan: `done` of `total`
    /// bytes of the input. This function may be called any number of times.
    fn progress(&self, done: u64, total: u64) {
        let _ = (done, total);
    }

    /// Returns the purpose for which the input is being read.
    fn purpose(&self) -> Purpose {
        Purpose::SHOW
    }

    /// Opens the input that the user passed in an option of kind
    /// [`OptionKind::Source`](crate::OptionKind::Source). The plugin may read it while an output is
    /// planned or streamed.
    ///
    /// # Errors
    /// Returns a usage error if nothing exists at `path`, or an unsupported error if the host does
    /// not provide files.
    fn open(&self, path: &str) -> Result<Arc<dyn Source>> {
        Err(Error::unsupported("this host does not open other inputs").file(path))
    }

    /// Opens the folder of the model that is being converted. Returns `None` if the input is not a
    /// folder. Writers use this if their output includes files from the folder, such as a
    /// configuration or a tokenizer. The host counts files that are opened here as part of the
    /// output, so it does not report them as lost.
    fn input_folder(&self) -> Result<Option<Arc<dyn Source>>> {
        Ok(None)
    }

    /// Returns whether the output is a folder that does not exist yet.
    fn output_is_new(&self) -> bool {
        false
    }

    /// Returns the number of threads that a call may use, including the calling thread.
    fn threads(&self) -> usize {
        1
    }

    /// Returns an error if the user has canceled the run.
    ///
    /// # Errors
    /// Returns an error of kind [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled) if the user
    /// has canceled the run.
    fn check_cancelled(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::cancelled("ended by the user")) } else { Ok(()) }
    }
}

/// A context for unit tests. The context is never canceled, and it keeps all messages.
#[derive(Default)]
pub struct MemoryContext {
    /// Limits of the run.
    pub limits: Limits,
    /// Purpose for which inputs are read.
    pub purpose: Purpose,
    /// Inputs for options of kind [`OptionKind::Source`](crate::OptionKind::Source), by path.
    pub sources: BTreeMap<String, Arc<dyn Source>>,
    /// Whether outputs are new folders.
    pub output_is_new: bool,
    /// Folder of the model that is being converted.
    pub input_folder: Option<Arc<dyn Source>>,
    logged: Mutex<Vec<(Level, String)>>,
    progress: Mutex<Option<(u64, u64)>>,
}

impl MemoryContext {
    /// Creates a context with these limits.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Returns all notes that were added so far.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let notes = self.logged().into_iter().filter(|(level, _)| *level == Level::Note);
        notes.map(|(_, message)| message).collect()
    }

    /// Returns all messages so far, including notes.
    #[must_use]
    pub fn logged(&self) -> Vec<(Level, String)> {
        self.logged.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the arguments of the last call of [`progress`](Context::progress).
    #[must_use]
    pub fn last_progress(&self) -> Option<(u64, u64)> {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context for MemoryContext {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn is_cancelled(&self) -> bool {
        false
    }

    fn log(&self, level: Level, message: &str) {
        self.logged.lock().unwrap_or_else(PoisonError::into_inner).push((level, message.to_owned()));
    }

    fn progress(&self, done: u64, total: u64) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some((done, total));
    }

    fn purpose(&self) -> Purpose {
        self.purpose
    }

    fn open(&self, path: &str) -> Result<Arc<dyn Source>> {
        let source = self.sources.get(path).cloned();
        source.ok_or_else(|| Error::usage("no such file or folder").file(path))
    }

    fn input_folder(&self) -> Result<Option<Arc<dyn Source>>> {
        Ok(self.input_folder.clone())
    }

    fn output_is_new(&self) -> bool {
        self.output_is_new
    }
}
