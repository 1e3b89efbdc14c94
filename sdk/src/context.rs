//! A context tells a plugin about the conversion that it works for: its limits, its purpose, its threads,
//! and whether the user has cancelled it.

use crate::{Error, Limits, Result, Source};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What an input is read for: an open set of bits. A plugin asks for those that it knows ([`has`](Self::has)); a later
/// host may set others beside them. Where names or what is left out by default depend on it, a reader's
/// options let the user choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Purpose(pub u32);

impl Purpose {
    /// To be shown: everything, under the names that the input itself uses.
    pub const SHOW: Self = Self(1);
    /// To be compared with an input of any format: everything, under the names of a conversion.
    pub const COMPARE: Self = Self(2);
    /// To be written in its own format again: everything, under its own names.
    pub const COPY: Self = Self(4);
    /// To be written in another format that keeps a tree of non-tensor state.
    pub const NESTED: Self = Self(8);
    /// To be written in another format that holds a flat list of tensors.
    pub const FLAT: Self = Self(16);
    /// To be shown record by record, from the first on, perhaps only a few: a reader of records need not
    /// look at all of them for a schema, where it has lines of its own.
    pub const LINES: Self = Self(32);
    /// To be read once, every split to its end. A reader of records may guess their schema and where splits
    /// begin, as long as its streams prove the guess or fail with
    /// [`Error::wrong_guess`](crate::Error::wrong_guess): the host drops what it made of them then, and opens the input
    /// again for another purpose. Any other error of a stream is the input's, and final.
    pub const ONCE: Self = Self(64);

    /// Whether it is this one, or this one among others.
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

/// How much a line says to the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Level {
    /// Something failed, though the call goes on.
    Error,
    /// Something is probably not as the user wants it.
    Warning,
    /// Something that the user may want to know.
    Note,
    /// Something for the plugin's author: users are not shown it.
    Detail,
}

/// The limits, lines for the user, and whether the user has cancelled.
pub trait Context: Send + Sync {
    /// The bounds for this run.
    fn limits(&self) -> &Limits;

    /// Whether the user has ended the run; long loops ask now and then.
    fn is_cancelled(&self) -> bool;

    /// Tells the user something that is no loss, and no error that ends the call; one line.
    fn log(&self, level: Level, message: &str);

    /// Tells the user something that is neither an error nor a loss; one line.
    fn note(&self, message: &str) {
        self.log(Level::Note, message);
    }

    /// Says how many bytes of the input a long call has gone through, of how many that it will go through: an index,
    /// a scan for a schema. As often as the call likes.
    fn progress(&self, done: u64, total: u64) {
        let _ = (done, total);
    }

    /// What the input is read for.
    fn purpose(&self) -> Purpose {
        Purpose::SHOW
    }

    /// Opens what an option of kind [`OptionKind::Source`](crate::OptionKind::Source) names: another
    /// input, to be read while an output is planned or streamed.
    ///
    /// # Errors
    /// Usage, if there is nothing of that name; unsupported, where the host has no files.
    fn open(&self, path: &str) -> Result<Arc<dyn Source>> {
        Err(Error::unsupported("this host opens no other inputs").file(path))
    }

    /// The folder of the model that an output is planned of: a writer whose files hold what lies beside the weights
    /// there (a configuration, a tokenizer) opens it. What it opens counts as held by the output, and is no loss. `None`
    /// where the input is no folder.
    fn input_folder(&self) -> Result<Option<Arc<dyn Source>>> {
        Ok(None)
    }

    /// Whether the output is a folder that does not exist yet, so that nobody looks into it.
    fn output_is_new(&self) -> bool {
        false
    }

    /// How many threads a call may use at once, its own included.
    fn threads(&self) -> usize {
        1
    }

    /// An error once the user has ended the run.
    ///
    /// # Errors
    /// [`ErrorKind::Cancelled`](crate::ErrorKind::Cancelled).
    fn check_cancelled(&self) -> Result<()> {
        if self.is_cancelled() { Err(Error::cancelled("ended by the user")) } else { Ok(()) }
    }
}

/// A context for unit tests: it is never cancelled, and keeps the notes.
#[derive(Default)]
pub struct MemoryContext {
    /// The limits that it gives.
    pub limits: Limits,
    /// What inputs are read for.
    pub purpose: Purpose,
    /// What options of kind [`OptionKind::Source`](crate::OptionKind::Source) name.
    pub sources: BTreeMap<String, Arc<dyn Source>>,
    /// Whether outputs are new folders.
    pub output_is_new: bool,
    /// The folder of the model that is written.
    pub input_folder: Option<Arc<dyn Source>>,
    logged: Mutex<Vec<(Level, String)>>,
    progress: Mutex<Option<(u64, u64)>>,
}

impl MemoryContext {
    /// A context with `limits`.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// What was noted so far.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let notes = self.logged().into_iter().filter(|(level, _)| *level == Level::Note);
        notes.map(|(_, message)| message).collect()
    }

    /// What was logged so far, notes included.
    #[must_use]
    pub fn logged(&self) -> Vec<(Level, String)> {
        self.logged.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the last call of [`progress`](Context::progress) said.
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
