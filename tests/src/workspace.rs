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
    BUILT.get_or_init(build)
}

fn build() -> Workspace {
    let (target, profile) = target_and_profile();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--workspace", "--quiet", "--message-format=json", "--profile", &profile])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "the workspace does not build");

    let mut program = None;
    let mut plugins = Vec::new();
    for line in output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let message: Value = serde_json::from_slice(line).expect("cargo prints a JSON document a line");
        if message["reason"] != "compiler-artifact" {
            continue;
        }
        let name = message["target"]["name"].as_str().unwrap_or_default();
        if name == "ferry" && message["executable"].is_string() {
            program = message["executable"].as_str().map(PathBuf::from);
        }
        let is_library =
            message["target"]["kind"].as_array().is_some_and(|kinds| kinds.contains(&"cdylib".into()));
        if is_library {
            let files = message["filenames"].as_array().expect("an artifact has files");
            let files = files.iter().filter_map(Value::as_str).map(PathBuf::from);
            plugins.extend(files.filter(|file| {
                file.extension().is_some_and(|suffix| suffix == std::env::consts::DLL_EXTENSION)
            }));
        }
    }
    let program = program.expect("the workspace has a program called ferry");
    assert!(plugins.len() >= 2, "found only these plugin libraries: {plugins:?}");
    Workspace { program, plugins, target }
}

/// A test runs from `TARGET/PROFILE/deps`, a program from `TARGET/PROFILE`.
fn target_and_profile() -> (PathBuf, String) {
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
