//! The real frameworks, in a Python environment with pinned versions.
//!
//! `FERRY_INTEROP_VENV` names an existing environment. Otherwise, an environment is created in the
//! target folder on first use, and created again when `python/requirements.txt` changes.

use crate::ferry::Outcome;
use crate::workspace::workspace;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// Runs one of the scripts in `tests/python`, and expects success.
#[track_caller]
pub fn script<S: AsRef<OsStr>>(name: &str, arguments: impl IntoIterator<Item = S>) -> Outcome {
    run(&scripts().join(name), arguments).expect(0)
}

/// Checks that two files of F32 numbers have the same bits, where any two NaNs are equal. Returns
/// the count of numbers, and the count of NaNs.
#[track_caller]
pub fn same_numbers(a: &Path, b: &Path) -> (u64, u64) {
    let said = script("same_numbers.py", [a, b]).json();
    assert_eq!(said["differ"], json!({}), "{} and {}", a.display(), b.display());
    let count = |key: &str| said[key].as_u64().unwrap();
    (count("numbers"), count("nan"))
}

/// Runs a script that imports either TensorFlow or PyTorch, with arguments that select PyTorch. A
/// process that imports both frameworks crashes, because each contains its own LLVM.
#[track_caller]
pub fn torch_script<S: AsRef<OsStr>>(name: &str, arguments: impl IntoIterator<Item = S>) -> Outcome {
    run_in(&TORCH, &scripts().join(name), arguments).expect(0)
}

/// Runs a script until it exits, in a process that has already imported the framework.
#[track_caller]
pub fn run<S: AsRef<OsStr>>(script: &Path, arguments: impl IntoIterator<Item = S>) -> Outcome {
    let source =
        std::fs::read_to_string(script).unwrap_or_else(|error| panic!("{}: {error}", script.display()));
    let is_tensorflow = ["tensorflow", "tf_facts"].iter().any(|word| source.contains(word));
    run_in(if is_tensorflow { &TENSORFLOW } else { &TORCH }, script, arguments)
}

#[track_caller]
fn run_in<S: AsRef<OsStr>>(
    server: &Server,
    script: &Path,
    arguments: impl IntoIterator<Item = S>,
) -> Outcome {
    let text = |text: &OsStr| text.to_str().expect("arguments of scripts are UTF-8").to_owned();
    let arguments: Vec<String> = arguments.into_iter().map(|argument| text(argument.as_ref())).collect();
    let command = format!("{} {}", script.display(), arguments.join(" "));
    let mut connection = UnixStream::connect_addr(server.address()).unwrap();
    writeln!(connection, "{}", json!({"script": script, "arguments": arguments})).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|_| panic!("it crashed: {command}"));
    let stream = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
    let code = answer["code"].as_i64().and_then(|code| i32::try_from(code).ok());
    Outcome { code, stdout: stream("stdout"), stderr: stream("stderr"), command }
}

/// A process that runs scripts in forks of itself, because importing a framework takes seconds.
struct Server {
    name: &'static str,
    modules: &'static [&'static str],
    /// The address and process of the server. The server exits when this process exits, because
    /// this process owns the server's standard input.
    running: OnceLock<(SocketAddr, Child)>,
}

static TORCH: Server = Server {
    name: "torch",
    modules: &["torch", "safetensors.torch", "numpy", "pyarrow.parquet"],
    running: OnceLock::new(),
};
static TENSORFLOW: Server =
    Server { name: "tensorflow", modules: &["tensorflow", "numpy"], running: OnceLock::new() };

impl Server {
    /// Starts the server if needed, and returns its address.
    fn address(&self) -> &SocketAddr {
        let (address, _) = self.running.get_or_init(|| {
            let name = format!("ferry-tests-{}-{}", std::process::id(), self.name);
            let mut command = command("serve.py", [name.as_str()].iter().chain(self.modules));
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut line = String::new();
            let stdout = child.stdout.as_mut().expect("it is piped");
            BufReader::new(stdout).read_line(&mut line).unwrap();
            assert_eq!(line, "ready\n", "{command:?} does not start");
            (SocketAddr::from_abstract_name(name).unwrap(), child)
        });
        address
    }
}

/// Returns the command that runs a script in a separate process.
#[must_use]
pub fn command<S: AsRef<OsStr>>(name: &str, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(interpreter());
    command.arg("-B").arg(scripts().join(name)).args(arguments);
    // Disable TensorFlow's messages and its search for GPUs.
    command
        .env("TF_CPP_MIN_LOG_LEVEL", "3")
        .env("CUDA_VISIBLE_DEVICES", "")
        .env("KERAS_BACKEND", "tensorflow");
    command
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python")
}

/// Python code that fails if a framework is missing. It only looks for TensorFlow, because
/// importing TensorFlow takes seconds.
const IMPORTS: &str = "import numpy, pyarrow.parquet, safetensors.torch, torch
from importlib.util import find_spec
assert all(map(find_spec, ['tensorflow', 'keras', 'deepspeed', 'transformers']))";

/// Returns the Python interpreter of the environment.
pub fn interpreter() -> &'static Path {
    static FOUND: OnceLock<PathBuf> = OnceLock::new();
    FOUND.get_or_init(|| {
        let python = match std::env::var_os("FERRY_INTEROP_VENV") {
            Some(environment) => PathBuf::from(environment).join("bin/python"),
            None => installed(&workspace().target.join("interop-venv")).join("bin/python"),
        };
        let imported = Command::new(&python).args(["-c", IMPORTS]).status();
        assert!(
            imported.is_ok_and(|status| status.success()),
            "{} cannot import torch, safetensors, numpy, pyarrow, tensorflow, keras, deepspeed and transformers, which \
             the interop tests need; name an environment that can with FERRY_INTEROP_VENV",
            python.display(),
        );
        python
    })
}

/// Returns the environment, and creates it if it is missing.
fn installed(environment: &Path) -> PathBuf {
    let mut install = Command::new(scripts().join("install"));
    let status = install.arg(environment).status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "the interop tests need python3 with venv and pip, and the frameworks of \
         tests/python/requirements.txt; this failed ({status:?}): {install:?}",
    );
    environment.to_owned()
}
