//! Helpers that build the crates of `third-party/` outside the workspace, in the same way as their
//! authors.

use std::path::{Path, PathBuf};
use tensorferry_tests::workspace::{self, root, workspace};

/// Returns the folder of these crates.
pub(crate) fn folder() -> PathBuf {
    root().join("tests/third-party")
}

/// Returns the sample file in the crate of the trial format.
pub(crate) fn sample() -> PathBuf {
    folder().join("trial/sample/sample.trial")
}

/// Returns the library of the crate with this name.
pub(crate) fn library(name: &str) -> PathBuf {
    build(&folder().join(name), &["--locked"])
}

/// Returns the target folder that all these crates share.
pub(crate) fn target() -> PathBuf {
    workspace().target.join("third-party")
}

/// Environment variable for cargo builds in [`target`]. All builds use the same setting, so that
/// they share results. Debug information is not needed, and would account for a third of the build
/// time.
pub(crate) const PROFILE: (&str, &str) = ("CARGO_PROFILE_DEV_DEBUG", "0");

/// Returns a library with one of ferry's own formats, such as `torch`, built as described in
/// CONTRIBUTING.md.
pub(crate) fn of_format(format: &str) -> PathBuf {
    let package = format!("tensorferry-{format}");
    // The library converts only a few kilobytes, so it does not need optimization.
    let cheap = ["--config", "profile.dev.opt-level=0", "--config", "profile.dev.debug=false"];
    let options = ["--package", &*package, "--features", "plugin", "--crate-type", "cdylib"];
    let options = [cheap.as_slice(), &options].concat();
    let files = workspace::files_of(root(), &workspace().target, "rustc", &options);
    let library = files.into_iter().find(|(name, _)| *name == package.replace('-', "_"));
    library.unwrap_or_else(|| panic!("{package} has no library")).1
}

/// Returns all programs and libraries that are built from the crate in `folder`.
pub(crate) fn products(folder: &Path, options: &[&str]) -> Vec<PathBuf> {
    let profile = format!("profile.dev.debug={}", PROFILE.1);
    workspace::build(folder, &target(), &[&["--config", &*profile], options].concat())
}

/// Builds the crate in `folder`, and returns its program, or its library if it has no program.
pub(crate) fn build(folder: &Path, options: &[&str]) -> PathBuf {
    products(folder, options)
        .into_iter()
        .next_back()
        .unwrap_or_else(|| panic!("{} has no library", folder.display()))
}
