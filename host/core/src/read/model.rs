//! A model is what one reader reads of the input. Most inputs are one; a folder may hold more in its
//! sub-folders: a pipeline of diffusers has one for each of its parts.

use crate::read::context::ReadContext;
use crate::read::identity::FileIdentity;
use crate::read::input::Input;
use std::path::PathBuf;
use tensorferry_sdk::{Loss, Result};

/// A model of the input, read.
pub struct InputModel<'a> {
    /// The folder that it lies in, relative to the input's; empty for the input itself.
    pub folder: String,
    /// What it holds.
    pub input: Input,
    /// What its plugins are told.
    pub context: ReadContext<'a>,
}

impl InputModel<'_> {
    /// Where a name of this model lies in the input.
    #[must_use]
    pub fn path_of(&self, name: &str) -> String {
        if self.folder.is_empty() { name.to_owned() } else { format!("{}/{name}", self.folder) }
    }

    /// A loss of this model as one of the whole input.
    #[must_use]
    pub fn place(&self, loss: &Loss) -> Loss {
        let mut placed = loss.clone();
        placed.what = self.path_of(&loss.what);
        placed
    }

    /// The files that it was read from, and what they were then.
    #[must_use]
    pub fn files(&self) -> Vec<(PathBuf, FileIdentity)> {
        let own = self.input.source.stamped().map(|(path, identity)| (path.to_owned(), identity));
        own.chain(self.context.additional_files()).collect()
    }

    /// Checks that everything it was read from is still what it was.
    ///
    /// # Errors
    /// Transient, if a file changed; a plugin error, if the reader's destructor panicked.
    pub fn close(self) -> Result<()> {
        self.input.close()?;
        self.context.check_additional_inputs()
    }

    /// Whether its reader, or the writer of its output, has opened the file of this name of the input.
    #[must_use]
    pub fn has_read(&self, name: &str) -> bool {
        let own = if self.folder.is_empty() {
            Some(name)
        } else {
            name.strip_prefix(&self.folder).and_then(|rest| rest.strip_prefix('/'))
        };
        own.is_some_and(|own| self.input.source.is_open(own) || self.context.has_read(own))
    }
}
