//! An outside crate is one of `third-party/`: built as its author would build it, out of the workspace.

use std::path::{Path, PathBuf};
use tensorferry_tests::workspace::{self, root, workspace};

/// Where the outside crates are.
pub(crate) fn folder() -> PathBuf {
    root().join("tests/third-party")
}

/// The file of the trial format that its crate comes with.
pub(crate) fn sample() -> PathBuf {
    folder().join("trial/sample/sample.trial")
}

/// The library of the crate of this name.
pub(crate) fn library(name: &str) -> PathBuf {
    build(&folder().join(name), &["--locked"])
}

/// The target folder that all outside crates share.
pub(crate) fn target() -> PathBuf {
    workspace().target.join("third-party")
}

/// What cargo's environment says wherever crates are built in [`target`], so that all use the same builds: information
/// for debuggers, which nobody looks at here, takes a third of the time.
pub(crate) const PROFILE: (&str, &str) = ("CARGO_PROFILE_DEV_DEBUG", "0");

/// The library of one of ferry's own formats alone, as CONTRIBUTING.md has it: `torch`, say.
pub(crate) fn of_format(format: &str) -> PathBuf {
    let package = format!("tensorferry-{format}");
    // It converts some kilobytes.
    let cheap = ["--config", "profile.dev.opt-level=0", "--config", "profile.dev.debug=false"];
    let options = ["--package", &*package, "--features", "plugin", "--crate-type", "cdylib"];
    let options = [cheap.as_slice(), &options].concat();
    let files = workspace::files_of(root(), &workspace().target, "rustc", &options);
    let library = files.into_iter().find(|(name, _)| *name == package.replace('-', "_"));
    library.unwrap_or_else(|| panic!("{package} has no library")).1
}

/// Everything that is built of the crate in `folder`.
pub(crate) fn products(folder: &Path, options: &[&str]) -> Vec<PathBuf> {
    let profile = format!("profile.dev.debug={}", PROFILE.1);
    workspace::build(folder, &target(), &[&["--config", &*profile], options].concat())
}

/// Builds the crate in `folder`. Gives its library, or its program where it has one.
pub(crate) fn build(folder: &Path, options: &[&str]) -> PathBuf {
    products(folder, options)
        .into_iter()
        .next_back()
        .unwrap_or_else(|| panic!("{} has no library", folder.display()))
}
