//! An outside crate is one of `third-party/`: built as its author would build it, out of the
//! workspace and with a lock file of its own.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tensorferry_tests::workspace::{root, workspace};

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
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--quiet", "--message-format=json", "--target-dir"])
        .arg(target)
        .args(options)
        .current_dir(folder)
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{} does not build", folder.display());
    let lines = output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let messages =
        lines.map(|line| serde_json::from_slice::<Value>(line).expect("cargo prints a JSON document a line"));
    let products: Vec<PathBuf> = messages.filter_map(|message| product(&message, folder)).collect();
    products.into_iter().next_back().unwrap_or_else(|| panic!("{} has no library", folder.display()))
}

/// The file that an artifact of a crate below `folder` is used by.
fn product(message: &Value, folder: &Path) -> Option<PathBuf> {
    let manifest = Path::new(message["manifest_path"].as_str()?);
    if !manifest.starts_with(folder) {
        return None;
    }
    if let Some(program) = message["executable"].as_str() {
        return Some(PathBuf::from(program));
    }
    let files = message["filenames"].as_array()?.iter().filter_map(Value::as_str).map(PathBuf::from);
    let mut libraries =
        files.filter(|file| file.extension().is_some_and(|s| s == std::env::consts::DLL_EXTENSION));
    let is_library = message["target"]["kind"].as_array()?.contains(&"cdylib".into());
    libraries.next().filter(|_| is_library)
}
