//! Examines the plugin libraries that ferry found.

use std::path::Path;
use tensorferry::Registry;
use tensorferry_sdk::{Error, Result};

/// Returns the IDs of the formats in a library, or of those that are linked into the program.
pub(super) fn formats_of(registry: &Registry, library: Option<usize>) -> Vec<&str> {
    let formats = registry.formats().iter().filter(|format| format.library() == library);
    formats.map(|format| format.description.id.as_str()).collect()
}

/// Checks that at least one library was found at `path`, and that all of the libraries are usable.
pub(super) fn all_usable(registry: &Registry, path: &Path) -> Result<()> {
    let refused =
        registry.libraries().iter().find_map(|found| found.outcome.as_ref().err().map(|why| (found, why)));
    if let Some((found, why)) = refused {
        return Err(Error::io(format!("plugin refused: {why}")).file(found.path.display().to_string()));
    }
    if registry.libraries().is_empty() {
        let why = registry.notes().first().cloned().unwrap_or_else(|| "no library found".to_owned());
        return Err(Error::io(why).file(path.display().to_string()));
    }
    Ok(())
}
