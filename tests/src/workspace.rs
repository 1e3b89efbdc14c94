//! The results of `cargo build --workspace` in the profile of the tests.
//!
//! `cargo test` does not rebuild the library of the formats. This module therefore runs the build
//! again, and reads the paths from cargo's messages.

use serde_json::Value;
use std::collections::HashMap;
use std::env::consts::DLL_EXTENSION;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// The paths of the build's results.
#[derive(Debug)]
pub struct Workspace {
    /// The `ferry` program.
    pub program: PathBuf,
    /// The library of ferry's own formats.
    pub formats: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
    /// All built files, by the names of cargo's targets.
    files: HashMap<String, PathBuf>,
}

impl Workspace {
    /// Creates a temporary folder in the target folder, which is on a disk. `/tmp` may be in
    /// memory.
    pub fn folder(&self, prefix: &str) -> TempDir {
        let parent = self.target.join("tmp");
        std::fs::create_dir_all(&parent).unwrap();
        tempfile::Builder::new().prefix(prefix).tempdir_in(parent).unwrap()
    }

    /// Returns the Rust library of a crate in this workspace.
    pub fn rlib(&self, name: &str) -> &Path {
        self.files.get(name).unwrap_or_else(|| panic!("the workspace has no {name}"))
    }
}

/// Returns the root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ is in the repository")
}

/// Returns the results of the build, which runs once per process.
pub fn workspace() -> &'static Workspace {
    static BUILT: OnceLock<Workspace> = OnceLock::new();
    BUILT.get_or_init(whole)
}

fn whole() -> Workspace {
    let (target, profile) = target_and_profile();
    let mut files = files_of(root(), &target, "build", &["--workspace", "--profile", &profile]);
    // The formats are built as a Rust library, too. The map keeps the last file of a name, which is
    // the library that ferry loads.
    let is_loaded = |file: &Path| file.extension().is_some_and(|suffix| suffix == DLL_EXTENSION);
    files.sort_by_key(|(_, file)| is_loaded(file));
    let files: HashMap<_, _> = files.into_iter().collect();
    let file = |name: &str| files.get(name).unwrap_or_else(|| panic!("the workspace has no {name}")).clone();
    Workspace { program: file("ferry"), formats: file("ferry_formats"), target, files }
}

/// Returns a cargo command that runs in the root of the repository.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    forget_package(&mut cargo);
    cargo
}

/// Removes, from a command that runs cargo, the environment variables that cargo set in this process
/// for the tested package.
///
/// A build script that reads `CARGO_PKG_NAME` and similar variables, such as ring's, runs again
/// when they change. Everything that depends on its crate is then also compiled again. With the
/// variables, this would happen in each test, and again in the next normal build.
pub fn forget_package(command: &mut Command) {
    let is_of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
}

/// Returns the programs and plugin libraries that `cargo build` creates from the crates in a
/// folder.
pub fn build(folder: &Path, target: &Path, options: &[&str]) -> Vec<PathBuf> {
    let files = files_of(folder, target, "build", options).into_iter().map(|(_, file)| file);
    files.filter(|file| file.extension().is_none_or(|suffix| suffix != "rlib")).collect()
}

/// Returns the programs and libraries that a cargo command creates from the crates in a folder,
/// with the names of their targets.
pub fn files_of(folder: &Path, target: &Path, command: &str, options: &[&str]) -> Vec<(String, PathBuf)> {
    let output = cargo()
        .args([command, "--quiet", "--message-format=json", "--target-dir"])
        .arg(target)
        .args(options)
        .current_dir(folder)
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{} does not build", folder.display());
    let lines = output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    let messages = lines
        .map(|line| serde_json::from_slice::<Value>(line).expect("cargo prints one JSON document per line"));
    messages.filter_map(|message| files_in(&message, folder)).flatten().collect()
}

/// Returns the files of an artifact, and the name of its target, if the artifact's crate is in
/// `folder`.
fn files_in(message: &Value, folder: &Path) -> Option<Vec<(String, PathBuf)>> {
    if !Path::new(message["manifest_path"].as_str()?).starts_with(folder) {
        return None;
    }
    let files: Vec<&str> = match message["executable"].as_str() {
        Some(program) => vec![program],
        None => message["filenames"].as_array()?.iter().filter_map(Value::as_str).collect(),
    };
    let files = files.into_iter().map(PathBuf::from);
    let name = message["target"]["name"].as_str()?;
    Some(files.filter(|file| is_product(file)).map(|file| (name.to_owned(), file)).collect())
}

/// Returns whether a file is a program or a library, as opposed to an intermediate file of the
/// compiler.
fn is_product(file: &Path) -> bool {
    file.extension().is_none_or(|suffix| suffix == DLL_EXTENSION || suffix == "rlib")
}

/// Returns cargo's target folder and profile. A test runs from `TARGET/PROFILE/deps`, and a program
/// from `TARGET/PROFILE`.
pub(crate) fn target_and_profile() -> (PathBuf, String) {
    let executable = std::env::current_exe().expect("a running program has a path");
    let mut folder = executable.parent().expect("a program is in a folder");
    if folder.ends_with("deps") {
        folder = folder.parent().expect("deps/ is in the profile's folder");
    }
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("{} is not in cargo's target folder", executable.display()),
    };
    (folder.parent().expect("the profile's folder is in the target folder").to_owned(), profile.to_owned())
}
