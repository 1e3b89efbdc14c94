//! An outside crate is one of `third-party/`: built as its author would build it, out of the
//! workspace and with a lock file of its own.

use std::path::{Path, PathBuf};
use tensorferry_tests::workspace::{self, root, workspace};

/// Where the outside crates are.
pub(crate) fn folder() -> PathBuf {
    root().join("tests/third-party")
}

/// The library of the crate of this name.
pub(crate) fn library(name: &str) -> PathBuf {
    build(&folder().join(name), &target(), &["--locked"])
}

/// The target folder that all outside crates share.
pub(crate) fn target() -> PathBuf {
    workspace().target.join("third-party")
}

/// Builds the crate in `folder`. Gives its library, or its program where it has one.
pub(crate) fn build(folder: &Path, target: &Path, options: &[&str]) -> PathBuf {
    let products = workspace::build(folder, target, options);
    products.into_iter().next_back().unwrap_or_else(|| panic!("{} has no library", folder.display()))
}
