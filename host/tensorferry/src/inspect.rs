//! Looking at inputs: which format they are, what they hold, and what became of each of their files.

use crate::{RECORDS, Registry};
use std::path::Path;
pub use tensorferry_convert::inspect::{Inspected, Look, temporary};
use tensorferry_convert::inspect::{inspect, inspect_below, inspect_found};
pub use tensorferry_core::read::account::{Account, AccountRecord};
pub use tensorferry_core::read::losses::of_state;
use tensorferry_core::read::record_files;
pub use tensorferry_core::read::record_files::{FoundInput, InputChoice};
pub use tensorferry_core::read::source::FileSource;
pub use tensorferry_core::read::{outline, part};
use tensorferry_sdk::Result;

impl Registry {
    /// Finds an input: the format that it is, and which files of it are meant.
    ///
    /// # Errors
    /// Usage, if there is nothing of this name; unsupported, if no format reads it; whatever is wrong with it.
    pub fn find(&self, path: impl AsRef<Path>, choice: InputChoice<'_>) -> Result<FoundInput<'_>> {
        record_files::find(path.as_ref(), choice, self.as_ref(), self.session())
    }

    /// Opens an input and describes the part that is looked at; records as the tensors that they become.
    ///
    /// # Errors
    /// As of [`find`](Self::find).
    pub fn inspect(&self, path: impl AsRef<Path>, look: Look<'_>) -> Result<Inspected> {
        inspect(path.as_ref(), look, self.as_ref(), self.session(), RECORDS)
    }

    /// As [`inspect`](Self::inspect), for an input that was found.
    ///
    /// # Errors
    /// Whatever is wrong with the input.
    pub fn inspect_found(&self, found: &FoundInput<'_>, look: Look<'_>) -> Result<Inspected> {
        inspect_found(found, look, self.session(), RECORDS)
    }

    /// Inspects the models in the folders of a folder that is no model itself, each with its folder's name.
    ///
    /// # Errors
    /// Whatever is wrong with one of them.
    pub fn inspect_below(&self, root: impl AsRef<Path>, look: Look<'_>) -> Result<Vec<(String, Inspected)>> {
        inspect_below(root.as_ref(), look, self.as_ref(), self.session(), RECORDS)
    }
}
