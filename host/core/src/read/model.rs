//! A model is what one reader reads of the input. Most inputs are one model. A folder may contain
//! more in its sub-folders: a diffusers pipeline has one for each of its parts.

use crate::read::context::ReadContext;
use crate::read::identity::FileIdentity;
use crate::read::input::Input;
use std::path::PathBuf;
use tensorferry_sdk::{Loss, Result};

/// A model of the input that has been read.
pub struct InputModel<'a> {
    /// Its folder, relative to the input's; empty for the input itself.
    pub folder: String,
    pub input: Input,
    /// The context of its plugins.
    pub context: ReadContext<'a>,
}

impl InputModel<'_> {
    /// Returns the path of one of the model's names in the input.
    #[must_use]
    pub fn path_of(&self, name: &str) -> String {
        if self.folder.is_empty() { name.to_owned() } else { format!("{}/{name}", self.folder) }
    }

    /// Returns a loss of this model as a loss of the whole input.
    #[must_use]
    pub fn place(&self, loss: &Loss) -> Loss {
        let mut placed = loss.clone();
        placed.what = self.path_of(&loss.what);
        placed
    }

    /// Returns the files that it was read from, with their identities at that time.
    #[must_use]
    pub fn files(&self) -> Vec<(PathBuf, FileIdentity)> {
        let own = self.input.source.stamped().map(|(path, identity)| (path.to_owned(), identity));
        own.chain(self.context.additional_files()).collect()
    }

    /// Checks that everything it was read from is unchanged. Fails if the reader's destructor
    /// panicked.
    pub fn close(self) -> Result<()> {
        self.input.close()?;
        self.context.check_additional_inputs()
    }

    /// Whether its reader, or the writer of its output, has opened this file of the input.
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
