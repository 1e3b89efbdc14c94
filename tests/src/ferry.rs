//! The `ferry` program with its own plugin folder and working folder, for tests.

use crate::files::{files_below, names_in};
use crate::fixtures::{self, Facts};
use crate::model::{Model, Tensors};
use crate::workspace::workspace;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Maximum memory in KiB for reading a small hostile input. The program must not allocate memory
/// for false lengths in the input.
const MAX_KIBIBYTES: u64 = 1 << 20;
const MAX_SECONDS: u64 = 20;

/// Builds the arguments of a command from strings and paths.
#[macro_export]
macro_rules! args {
    ($($argument:expr),* $(,)?) => { [$(std::ffi::OsStr::new(&$argument)),*] };
}

/// The program, a folder of additional plugins, and a working folder for the files of a test.
#[derive(Debug)]
pub struct Ferry {
    plugins: TempDir,
    home: TempDir,
}

impl Default for Ferry {
    fn default() -> Self {
        Self::new()
    }
}

impl Ferry {
    /// Creates an instance that uses the workspace's plugins, which are next to the program.
    pub fn new() -> Self {
        Self::with_plugins(&[] as &[&Path])
    }

    /// Creates an instance that uses the workspace's plugins. Its working folder is on a disk,
    /// because `/tmp` may be in memory.
    pub fn on_disk() -> Self {
        Self { home: workspace().folder("home-"), ..Self::new() }
    }

    /// Creates an instance with these libraries in addition to the plugins that the program finds
    /// by default.
    pub fn with_plugins(libraries: &[impl AsRef<Path>]) -> Self {
        // The plugin folder is in the target folder for two reasons: hard links cannot cross file
        // systems, and other users cannot write there.
        let plugins = workspace().folder("plugins-");
        let ferry = Self { plugins, home: tempfile::tempdir().unwrap() };
        for library in libraries {
            ferry.add_plugin(library.as_ref());
        }
        ferry
    }

    /// Adds a library to the plugin folder.
    pub fn add_plugin(&self, library: &Path) {
        let to = self.plugins.path().join(library.file_name().expect("a library has a name"));
        if std::fs::hard_link(library, &to).is_err() {
            std::fs::copy(library, &to).unwrap_or_else(|error| panic!("{}: {error}", library.display()));
        }
    }

    /// Returns the plugin folder. Other users must not be able to write to it.
    pub fn plugin_folder(&self) -> &Path {
        self.plugins.path()
    }

    /// Returns the working folder, which is initially empty and is removed at the end.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Returns a path in the working folder.
    pub fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.home().join(name)
    }

    /// Returns paths in the working folder.
    pub fn paths<const N: usize>(&self, names: [&str; N]) -> [PathBuf; N] {
        names.map(|name| self.at(name))
    }

    /// Writes a file in the working folder, and creates its parent folders.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().expect("it is in the working folder")).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Writes a safetensors file with these tensors.
    pub fn safetensors(&self, name: &str, tensors: Tensors<'_>) -> PathBuf {
        self.write(name, crate::model::safetensors(tensors))
    }

    /// Writes a model as a safetensors file, and creates its parent folders.
    pub fn model(&self, name: &str, model: &Model) -> PathBuf {
        let path = self.write(name, []);
        model.write(&path).unwrap();
        path
    }

    /// Returns the sorted names of all entries of the working folder.
    pub fn names(&self) -> Vec<String> {
        names_in(self.home())
    }

    /// Returns the command with these arguments.
    #[must_use]
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(&workspace().program);
        command.arg("--plugin-dir").arg(self.plugins.path()).args(arguments);
        command.env_remove("FERRY_PLUGIN_PATH").env_remove("FERRY_FAULT").stdin(Stdio::null());
        // All tests share one plugin cache, so that the user's cache is not changed.
        command.env("XDG_CACHE_HOME", workspace().target.join("tmp/cache"));
        command
    }

    /// Runs the program until it exits.
    #[must_use]
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Outcome {
        run(&mut self.command(arguments))
    }

    /// Returns a shell command that runs a script in the working folder. The program is on the
    /// shell's PATH, and the working folder is its home.
    #[must_use]
    pub fn shell(&self, script: &str) -> Command {
        let programs = workspace().program.parent().expect("a program is in a folder");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).current_dir(self.home()).stdin(Stdio::null());
        shell.env("PATH", format!("{}:{path}", programs.display())).env("HOME", self.home());
        shell.env("XDG_CACHE_HOME", workspace().target.join("tmp/cache"));
        for variable in ["XDG_DATA_HOME", "XDG_CONFIG_HOME", "FERRY_PLUGIN_PATH", "FERRY_FAULT"] {
            shell.env_remove(variable);
        }
        shell
    }

    /// Runs the program with the limits on address space and processor time for hostile input. A
    /// program that exceeds these limits is killed by a signal.
    #[must_use]
    pub fn run_bounded<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Outcome {
        run(&mut bounded(&self.command(arguments)))
    }

    /// Runs a command on an input, with these options.
    #[must_use]
    pub fn on(&self, command: &str, input: impl AsRef<OsStr>, options: &[&str]) -> Outcome {
        run(self.command([command]).arg(input).args(options))
    }

    /// Converts an input, and returns the outcome, which may be a success or a failure.
    #[must_use]
    pub fn try_convert(&self, input: &Path, output: &Path, options: &[&str]) -> Outcome {
        run(self.command(args!["convert", input, output]).args(options))
    }

    /// Converts an input, and expects success.
    #[track_caller]
    pub fn convert(&self, input: &Path, output: &Path, options: &[&str]) -> Outcome {
        self.try_convert(input, output, options).expect(0)
    }

    /// Returns the document of `inspect --json --digest sha256`.
    #[track_caller]
    pub fn inspect(&self, input: &Path) -> Value {
        self.on("inspect", input, &["--json", "--digest", "sha256"]).expect(0).json()
    }

    /// Returns the tensors that the program finds in an input, by name.
    #[track_caller]
    pub fn tensors(&self, input: &Path) -> BTreeMap<String, Facts> {
        fixtures::inspected(&self.inspect(input))
    }

    /// Returns the dtype and shape of each tensor in an input, as a JSON object.
    #[track_caller]
    pub fn shapes(&self, input: &Path) -> Value {
        self.tensors(input)
            .into_iter()
            .map(|(name, (dtype, shape, _))| (name, json!([dtype, shape])))
            .collect()
    }

    /// Returns the output of `cat`.
    #[track_caller]
    pub fn cat(&self, input: &Path) -> String {
        self.on("cat", input, &[]).expect(0).stdout
    }

    /// Returns the records that `cat` prints.
    #[track_caller]
    pub fn rows(&self, input: &Path) -> Vec<Value> {
        self.cat(input).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Converts an input to two files and to a folder. Expects exit code 3 and a message that
    /// contains `named` each time, and checks that no output remains.
    pub fn refuses(&self, input: &Path, named: &str) {
        let folder = tempfile::tempdir().unwrap();
        for (output, format) in
            [("out.pt", "torch"), ("out.safetensors", "safetensors"), ("folder/", "torch")]
        {
            self.try_convert(input, &folder.path().join(output), &["--to", format]).expect(3).says(&[named]);
            let left = files_below(folder.path());
            assert!(left.is_empty(), "{}: left {left:?}", input.display());
        }
    }

    /// Returns the outcome of `diff` for two inputs.
    #[must_use]
    pub fn diff(&self, a: &Path, b: &Path, options: &[&str]) -> Outcome {
        run(self.command(args!["diff", a, b]).args(options))
    }

    /// Returns whether `diff` finds the same content in two inputs.
    pub fn equal(&self, a: &Path, b: &Path) -> bool {
        let outcome = self.diff(a, b, &[]);
        assert!(matches!(outcome.code, Some(0 | 1)) && !outcome.stdout.is_empty(), "no verdict: {outcome}");
        outcome.code == Some(0)
    }
}

/// Runs a command until it exits.
#[must_use]
pub fn run(command: &mut Command) -> Outcome {
    let mut output = command.output();
    // Retry if the program file is still open for writing. A child process that another thread has
    // just forked inherits the open file, and closes it only when it executes its own program.
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

/// Returns the command with limits on address space and processor time.
#[must_use]
pub fn bounded(command: &Command) -> Command {
    after(&format!("ulimit -v {MAX_KIBIBYTES}; ulimit -t {MAX_SECONDS}"), command)
}

/// Returns the command in a shell that runs `script` first.
#[must_use]
pub fn after(script: &str, command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{script}; exec \"$@\""), "sh"]);
    started_by(shell, command)
}

/// Adds the program, arguments and environment of `command` to `launcher`, so that the launcher
/// runs the command.
#[must_use]
pub fn started_by(mut launcher: Command, command: &Command) -> Command {
    launcher.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => launcher.env(name, value),
            None => launcher.env_remove(name),
        };
    }
    launcher
}

/// The exit code and output of a command.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The exit code, or `None` if a signal ended the command.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    pub(crate) command: String,
}

impl Outcome {
    /// Creates an outcome from the output of a process.
    pub fn new(command: String, output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
            command,
        }
    }

    /// Checks that the exit code is `code`, and returns the outcome.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// Checks that the messages contain each of `parts`, and returns the outcome.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "{part:?} is not in the messages of {self}");
        }
        self
    }

    /// Checks that the standard output contains each of `parts`, and returns the outcome.
    #[track_caller]
    pub fn prints(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stdout.contains(part), "{part:?} is not in the output of {self}");
        }
        self
    }

    /// Returns the standard output and the messages.
    pub fn said(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// Parses the standard output as one JSON document.
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
