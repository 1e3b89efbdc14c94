//! Inspection of inputs: their formats, their contents, and the status of each of their files.

use crate::{RECORDS, Registry};
use std::path::Path;
pub use tensorferry_convert::inspect::{InspectOptions, Inspected, temporary};
use tensorferry_convert::inspect::{inspect, inspect_below, inspect_found};
pub use tensorferry_core::read::account::{Account, AccountRecord};
pub use tensorferry_core::read::losses::of_state;
use tensorferry_core::read::record_files;
pub use tensorferry_core::read::record_files::{FoundInput, InputChoice};
pub use tensorferry_core::read::source::FileSource;
pub use tensorferry_core::read::{outline, part};
use tensorferry_sdk::Result;

impl Registry {
    /// Finds an input, and detects its format and the files that it consists of.
    ///
    /// # Errors
    /// Returns an error if the path does not exist, if no format reads the input, or if the input
    /// is malformed.
    pub fn find(&self, path: impl AsRef<Path>, choice: InputChoice<'_>) -> Result<FoundInput<'_>> {
        record_files::find(path.as_ref(), choice, self.as_ref(), self.session())
    }

    /// Opens an input and describes the part that `look` selects. For a record input, describes the
    /// tensors that a conversion of the records would create.
    ///
    /// # Errors
    /// Returns an error for any reason that [`find`](Self::find) lists.
    pub fn inspect(&self, path: impl AsRef<Path>, look: InspectOptions<'_>) -> Result<Inspected> {
        inspect(path.as_ref(), look, self.as_ref(), self.session(), RECORDS)
    }

    /// Inspects an input that was returned by [`find`](Self::find).
    ///
    /// # Errors
    /// Returns an error if the input is malformed or cannot be read.
    pub fn inspect_found(&self, found: &FoundInput<'_>, look: InspectOptions<'_>) -> Result<Inspected> {
        inspect_found(found, look, self.session(), RECORDS)
    }

    /// Inspects the models in the subfolders of a folder that is not itself a model. Returns each
    /// subfolder's name and model.
    ///
    /// # Errors
    /// Returns an error if one of the models is malformed or cannot be read.
    pub fn inspect_below(
        &self,
        root: impl AsRef<Path>,
        look: InspectOptions<'_>,
    ) -> Result<Vec<(String, Inspected)>> {
        inspect_below(root.as_ref(), look, self.as_ref(), self.session(), RECORDS)
    }
}
