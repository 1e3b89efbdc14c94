//! An errand is a run as a plugin sees it: what its input is read for, what becomes of its output,
//! and the other inputs that it has been lent.

use crate::context::session::Session;
use crate::read::identity::FileIdentity;
use crate::read::source::FileSource;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::{Capabilities, Context, Description, Limits, Purpose, Result, Source};

/// A run, on one purpose.
pub struct ReadContext<'a> {
    session: &'a Session,
    purpose: Purpose,
    output_is_new: bool,
    lent: Mutex<Vec<Arc<FileSource>>>,
}

impl<'a> ReadContext<'a> {
    /// An errand that reads an input for this purpose.
    #[must_use]
    pub fn new(session: &'a Session, purpose: Purpose) -> Self {
        Self { session, purpose, output_is_new: false, lent: Mutex::default() }
    }

    /// The same errand, whose output is a folder that does not exist yet.
    #[must_use]
    pub fn with_new_output(self, output_is_new: bool) -> Self {
        Self { output_is_new, ..self }
    }

    /// The files of the inputs that were lent, as [`FileSource::stamped`].
    #[must_use]
    pub fn lent_files(&self) -> Vec<(PathBuf, FileIdentity)> {
        let lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        lent.iter().flat_map(|source| source.stamped()).map(|(path, id)| (path.to_owned(), id)).collect()
    }

    /// The inputs that were lent.
    #[must_use]
    pub fn lent(&self) -> Vec<Arc<FileSource>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Checks that the inputs that were lent are still what they were.
    ///
    /// # Errors
    /// Transient, naming the file that changed.
    pub fn check_lent(&self) -> Result<()> {
        let lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        lent.iter().try_for_each(|source| source.check_unchanged())
    }
}

/// What a conversion from one format to another reads its input for.
#[must_use]
pub fn purpose(source: &Description, target: &Description) -> Purpose {
    if source.id == target.id {
        Purpose::COPY
    } else if target.capabilities.has(Capabilities::TREE) {
        Purpose::NESTED
    } else {
        Purpose::FLAT
    }
}

#[deny(clippy::missing_trait_methods, reason = "every question goes to the run or is answered here")]
impl Context for ReadContext<'_> {
    fn limits(&self) -> &Limits {
        self.session.limits()
    }

    fn is_cancelled(&self) -> bool {
        self.session.is_cancelled()
    }

    fn note(&self, message: &str) {
        self.session.note(message);
    }

    fn purpose(&self) -> Purpose {
        self.purpose
    }

    fn open(&self, path: &str) -> Result<Arc<dyn Source>> {
        let source = Arc::new(FileSource::open(Path::new(path))?);
        self.lent.lock().unwrap_or_else(PoisonError::into_inner).push(source.clone());
        Ok(source)
    }

    fn output_is_new(&self) -> bool {
        self.output_is_new
    }

    fn threads(&self) -> usize {
        self.session.threads()
    }

    fn check_cancelled(&self) -> Result<()> {
        self.session.check_cancelled()
    }
}
