//! A ferry is the built program with a plugin folder of its own.

use crate::workspace::workspace;
use serde_json::Value;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// What reading a small hostile input takes at most: nothing may be allocated by a claimed length.
const MOST_KIBIBYTES: u64 = 1 << 20;
const MOST_SECONDS: u64 = 20;

/// The program, and the folder that it loads plugins from.
#[derive(Debug)]
pub struct Ferry {
    plugins: TempDir,
}

impl Default for Ferry {
    fn default() -> Self {
        Self::new()
    }
}

impl Ferry {
    /// With the workspace's plugins.
    ///
    /// # Panics
    /// If they cannot be built or linked.
    #[must_use]
    pub fn new() -> Self {
        Self::with_plugins(&workspace().plugins)
    }

    /// With these libraries, and no others.
    ///
    /// # Panics
    /// If they cannot be linked.
    #[must_use]
    pub fn with_plugins(libraries: &[impl AsRef<Path>]) -> Self {
        // In the target folder: hard links do not cross file systems, and nobody else writes there.
        let parent = workspace().target.join("tmp");
        std::fs::create_dir_all(&parent).unwrap();
        let plugins = tempfile::Builder::new().prefix("plugins-").tempdir_in(parent).unwrap();
        let ferry = Self { plugins };
        for library in libraries {
            ferry.add_plugin(library.as_ref());
        }
        ferry
    }

    /// Puts one more library into the plugin folder.
    ///
    /// # Panics
    /// If it cannot be copied.
    pub fn add_plugin(&self, library: &Path) {
        let to = self.plugins.path().join(library.file_name().expect("a library has a name"));
        if std::fs::hard_link(library, &to).is_err() {
            std::fs::copy(library, &to).unwrap_or_else(|error| panic!("{}: {error}", library.display()));
        }
    }

    /// The plugin folder: nobody else may write to it.
    #[must_use]
    pub fn plugin_folder(&self) -> &Path {
        self.plugins.path()
    }

    /// The program with these arguments, to be started by the caller.
    #[must_use]
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(&workspace().program);
        command.arg("--plugin-dir").arg(self.plugins.path()).args(arguments);
        command.env_remove("FERRY_PLUGIN_PATH").env_remove("FERRY_FAULT").stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Outcome {
        run(&mut self.command(arguments))
    }

    /// Runs it to its end, with little address space and little of a processor's time: what hostile
    /// input may cost. A program that takes more ends by a signal.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn run_bounded<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Outcome {
        let command = self.command(arguments);
        let mut bounded = Command::new("sh");
        let limits = format!("ulimit -v {MOST_KIBIBYTES}; ulimit -t {MOST_SECONDS}; exec \"$@\"");
        bounded.args(["-c", &limits, "sh"]).arg(command.get_program()).args(command.get_args());
        run(&mut bounded)
    }

    /// Converts, and expects success.
    ///
    /// # Panics
    /// If it does not succeed.
    pub fn convert(&self, input: &Path, output: &Path, options: &[&str]) -> Outcome {
        let mut arguments: Vec<&OsStr> = vec!["convert".as_ref(), input.as_ref(), output.as_ref()];
        arguments.extend(options.iter().map(OsStr::new));
        self.run(arguments).expect(0)
    }

    /// The document of `inspect --json --digest sha256`.
    ///
    /// # Panics
    /// If it does not succeed.
    #[must_use]
    pub fn inspect(&self, input: &Path) -> Value {
        let options: [&OsStr; 5] =
            ["inspect".as_ref(), input.as_ref(), "--json".as_ref(), "--digest".as_ref(), "sha256".as_ref()];
        self.run(options).expect(0).json()
    }

    /// Has it convert an input that must be refused with exit code 3, to a file and to a folder, and
    /// looks for what it left.
    ///
    /// # Panics
    /// If it is not refused, does not name `named`, or leaves a file.
    pub fn refuses(&self, input: &Path, named: &str) {
        let folder = tempfile::tempdir().unwrap();
        for (output, format) in
            [("out.pt", "torch"), ("out.safetensors", "safetensors"), ("folder/", "torch")]
        {
            let output = folder.path().join(output);
            let command: [&OsStr; 5] =
                ["convert".as_ref(), input.as_ref(), output.as_ref(), "--to".as_ref(), format.as_ref()];
            self.run(command).expect(3).says(&[named]);
            let left = files_below(folder.path());
            assert!(left.is_empty(), "{}: left {left:?}", input.display());
        }
    }

    /// Whether `diff` finds the same content in both.
    ///
    /// # Panics
    /// If it gives no verdict.
    #[must_use]
    pub fn equal(&self, a: &Path, b: &Path) -> bool {
        let outcome = self.run([OsStr::new("diff"), a.as_ref(), b.as_ref()]);
        assert!(matches!(outcome.code, Some(0 | 1)) && !outcome.stdout.is_empty(), "no verdict: {outcome}");
        outcome.code == Some(0)
    }
}

/// Runs a command to its end.
///
/// # Panics
/// If it cannot be started.
#[must_use]
pub fn run(command: &mut Command) -> Outcome {
    let mut output = command.output();
    // A copy of the program that was just written is still open in a child that another thread forked
    // meanwhile, until that child runs its own program.
    for _ in 0..100 {
        match &output {
            Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(10));
                output = command.output();
            }
            _ => break,
        }
    }
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    Outcome::new(format!("{command:?}"), &output)
}

/// How a command ended, and what it said.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// All of its standard output.
    pub stdout: String,
    /// All of its standard error.
    pub stderr: String,
    command: String,
}

impl Outcome {
    /// From what a process left.
    #[must_use]
    pub fn new(command: String, output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
            command,
        }
    }

    /// Itself, if it ended with `code`.
    ///
    /// # Panics
    /// If it did not.
    #[track_caller]
    #[expect(clippy::return_self_not_must_use, reason = "the check is what it is called for")]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Itself, if its messages hold each of `parts`.
    ///
    /// # Panics
    /// If they do not.
    #[track_caller]
    #[expect(clippy::return_self_not_must_use, reason = "the check is what it is called for")]
    pub fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "no {part:?} in the messages of {self}");
        }
        self
    }

    /// The standard output as one JSON document.
    ///
    /// # Panics
    /// If it is none.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not one JSON document: {error}: {self}"))
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { code, stdout, stderr, command } = self;
        write!(f, "{command}\nexit code: {code:?}\nstdout: {stdout}\nstderr: {stderr}")
    }
}

/// Every file below a folder, by its relative path, sorted.
///
/// # Panics
/// If the folder cannot be read.
#[must_use]
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder).expect("it was found there").to_owned());
            }
        }
    }
    found.sort();
    found
}

/// Every entry of a folder by name, sorted: also the folders in which output is staged.
///
/// # Panics
/// If the folder cannot be read.
#[must_use]
pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
