//! The workspace is what `cargo build --workspace` makes, in the profile that the tests run in.
//!
//! `cargo test` leaves the plugin libraries beside the program as they were at the last `cargo
//! build`, so the build is run once more here, and the paths are taken from its messages.

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// Where the build left things.
#[derive(Debug)]
pub struct Workspace {
    /// The `ferry` program.
    pub program: PathBuf,
    /// The plugins' libraries.
    pub plugins: Vec<PathBuf>,
    /// Cargo's target folder.
    pub target: PathBuf,
}

impl Workspace {
    /// A temporary folder in the target folder: on a disk, as `/tmp` may not be.
    pub fn folder(&self, prefix: &str) -> TempDir {
        let parent = self.target.join("tmp");
        std::fs::create_dir_all(&parent).unwrap();
        tempfile::Builder::new().prefix(prefix).tempdir_in(parent).unwrap()
    }
}

/// The root of the repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the repository")
}

/// The workspace, built once for each process.
pub fn workspace() -> &'static Workspace {
    static BUILT: OnceLock<Workspace> = OnceLock::new();
    BUILT.get_or_init(whole)
}

fn whole() -> Workspace {
    let (target, profile) = target_and_profile();
    let products = build(root(), &target, &["--workspace", "--profile", &profile]);
    let (plugins, programs): (Vec<_>, Vec<_>) = products
        .into_iter()
        .partition(|file| file.extension().is_some_and(|suffix| suffix == std::env::consts::DLL_EXTENSION));
    // Python's extension module is a library too, and no plugin.
    let is_plugin =
        |file: &PathBuf| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libferry_"));
    let plugins: Vec<_> = plugins.into_iter().filter(is_plugin).collect();
    assert!(plugins.len() >= 2, "found only these plugin libraries: {plugins:?}");
    let program = programs.into_iter().find(|file| file.ends_with("ferry"));
    Workspace { program: program.expect("the workspace has a program called ferry"), plugins, target }
}

/// Cargo, in the repository's root.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    forget_package(&mut cargo);
    cargo
}

/// Keeps from a command that calls cargo what cargo told this process of the package that it tests.
///
/// A build script that asks for `CARGO_PKG_NAME` and its like runs again when they change (ring's does), and all that
/// is built on its crate is compiled again: each time in the test, and each time after it.
pub fn forget_package(command: &mut Command) {
    let is_of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_package) {
            command.env_remove(name);
        }
    }
}

/// The programs and the plugin libraries that `cargo build` makes of the crates below a folder.
pub fn build(folder: &Path, target: &Path, options: &[&str]) -> Vec<PathBuf> {
    let output = cargo()
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
    messages.filter_map(|message| product(&message, folder)).collect()
}

/// The file that an artifact of a crate below `folder` is used by.
fn product(message: &Value, folder: &Path) -> Option<PathBuf> {
    if !Path::new(message["manifest_path"].as_str()?).starts_with(folder) {
        return None;
    }
    if let Some(program) = message["executable"].as_str() {
        return Some(PathBuf::from(program));
    }
    let is_library = message["target"]["kind"].as_array()?.contains(&"cdylib".into());
    let files = message["filenames"].as_array()?.iter().filter_map(Value::as_str).map(PathBuf::from);
    let mut libraries =
        files.filter(|file| file.extension().is_some_and(|suffix| suffix == std::env::consts::DLL_EXTENSION));
    libraries.next().filter(|_| is_library)
}

/// A test runs from `TARGET/PROFILE/deps`, a program from `TARGET/PROFILE`.
pub(crate) fn target_and_profile() -> (PathBuf, String) {
    let executable = std::env::current_exe().expect("a running program has a path");
    let mut folder = executable.parent().expect("it lies in a folder");
    if folder.ends_with("deps") {
        folder = folder.parent().expect("deps/ lies in the profile's folder");
    }
    let profile = match folder.file_name().and_then(|name| name.to_str()) {
        Some("debug") => "dev",
        Some(name) => name,
        None => panic!("{} is not in cargo's target folder", executable.display()),
    };
    (folder.parent().expect("the profile's folder lies in the target folder").to_owned(), profile.to_owned())
}
