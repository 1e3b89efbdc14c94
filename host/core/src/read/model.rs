//! A model is the part of an input that one reader reads. Most inputs consist of one model. The
//! sub-folders of an input folder may contain more models: a diffusers pipeline has one model for
//! each of its parts.

use crate::read::context::ReadContext;
use crate::read::identity::FileIdentity;
use crate::read::input::TensorInput;
use std::path::PathBuf;
use tensorferry_sdk::{Loss, Result};

/// A model that has been read from the input.
pub struct InputModel<'a> {
    /// The model's folder, relative to the input's folder; empty for the input itself.
    pub folder: String,
    pub input: TensorInput,
    /// The context of the plugins that read the model.
    pub context: ReadContext<'a>,
}

impl InputModel<'_> {
    /// Converts a path in the model to a path in the input.
    #[must_use]
    pub fn path_of(&self, name: &str) -> String {
        if self.folder.is_empty() { name.to_owned() } else { format!("{}/{name}", self.folder) }
    }

    /// Converts a loss that this model reported to a loss of the whole input.
    #[must_use]
    pub fn place(&self, loss: &Loss) -> Loss {
        let mut placed = loss.clone();
        placed.what = self.path_of(&loss.what);
        placed
    }

    /// Returns the files that the model was read from, with the identities that the files had when
    /// they were opened.
    #[must_use]
    pub fn files(&self) -> Vec<(PathBuf, FileIdentity)> {
        let own = self.input.source.stamped().map(|(path, identity)| (path.to_owned(), identity));
        own.chain(self.context.additional_files()).collect()
    }

    /// Checks that all files that the model was read from are unchanged. Returns an error if the
    /// reader's destructor panicked.
    pub fn close(self) -> Result<()> {
        self.input.close()?;
        self.context.check_additional_inputs()
    }

    /// Returns whether the model's reader, or the writer of its output, has opened this file of the
    /// input.
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
