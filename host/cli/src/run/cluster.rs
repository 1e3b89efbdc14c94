//! `ferry run --on ray`: runs the jobs of a manifest on the nodes of a Ray cluster. The `ferry`
//! process is replaced by a Python process. Its `tensorferry` package contains the `ferry` program
//! that runs on each node.

use super::super::args::{Arguments, Run as Command};
use super::super::cluster::Cluster;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use tensorferry_sdk::{Error, Result};

/// Environment variable that contains the path of the Python interpreter.
const PYTHON: &str = "FERRY_PYTHON";
/// Python program that checks for the required packages. Its exit code indicates which package is
/// missing.
const QUESTION: &str = "import sys; from importlib.util import find_spec
sys.exit(41 if find_spec('tensorferry') is None else 42 if find_spec('ray') is None else 0)";
const NO_PACKAGE: i32 = 41;
const NO_RAY: i32 = 42;

/// Replaces this process with Python. From then on, Python receives the signals and determines the
/// exit code.
pub(super) fn run(cluster: &Cluster, command: &Command, arguments: &Arguments) -> Result<u8> {
    refuse(command, arguments)?;
    let python = interpreter();
    check(&python)?;
    let mut process = std::process::Command::new(&python);
    process.args(["-m", "tensorferry.ray"]).args(words(cluster, command, arguments));
    // `exec` returns only if it fails.
    Err(cannot_start(&python, &process.exec()))
}

/// Returns the Python interpreter that `--on ray` starts.
pub(crate) fn interpreter() -> OsString {
    let python = std::env::var_os(PYTHON).filter(|python| !python.is_empty());
    python.unwrap_or_else(|| "python3".into())
}

fn words(cluster: &Cluster, command: &Command, arguments: &Arguments) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut add = |flag: &str, value: OsString| words.extend([flag.into(), value]);
    if let Some(address) = &cluster.address {
        add("--address", address.into());
    }
    if let Some(plan) = &command.plan {
        add("--plan", plan.into());
    }
    for (name, value) in &command.var {
        add("--var", format!("{name}={value}").into());
    }
    for only in &command.only {
        add("--only", only.into());
    }
    if let Some(threads) = arguments.threads {
        add("--cpus", threads.to_string().into());
    }
    if let Some(memory) = arguments.memory {
        add("--memory", memory.to_string().into());
    }
    let flags = [(command.quiet, "--quiet"), (command.json, "--json")];
    words.extend(flags.into_iter().filter(|(is_given, _)| *is_given).map(|(_, flag)| flag.into()));
    // The name of a manifest may start with a dash, so the options end here.
    words.push("--".into());
    words.extend(command.manifest.as_ref().map(|manifest: &PathBuf| manifest.into()));
    words
}

/// Rejects options that cannot be passed to the nodes. The nodes run the Python package's `ferry`
/// program, which has its own formats.
fn refuse(command: &Command, arguments: &Arguments) -> Result<()> {
    let given = [
        (!arguments.plugin_dir.is_empty(), "--plugin-dir"),
        (!arguments.allow_shadow.is_empty(), "--allow-shadow"),
        (!arguments.limits.is_empty(), "--limit"),
        (!arguments.store.is_empty(), "--store"),
        (command.jobs.is_some(), "--jobs"),
        (command.journal.is_some(), "--journal"),
        (command.report.is_some(), "--report"),
        (command.fail_fast, "--fail-fast"),
    ];
    match given.iter().find(|(is_given, _)| *is_given) {
        Some((_, flag)) => Err(Error::usage(format!("{flag} is not passed to the nodes of a cluster")).hint(
            "set it in the manifest, or in the environment of the nodes (FERRY_PLUGIN_PATH, FERRY_STORE)",
        )),
        None => Ok(()),
    }
}

/// Checks that the required packages are installed for the interpreter.
pub(crate) fn check(python: &OsStr) -> Result<()> {
    let status = std::process::Command::new(python)
        .args(["-c", QUESTION])
        .status()
        .map_err(|error| cannot_start(python, &error))?;
    let python = python.display();
    match status.code() {
        Some(0) => Ok(()),
        Some(NO_PACKAGE) => Err(Error::io(format!("{python} does not have the package tensorferry")).hint(
            format!("install its wheel and 'ray[data]>=2.52' there, or set {PYTHON} to another interpreter"),
        )),
        Some(NO_RAY) => Err(Error::io(format!("{python} does not have Ray"))
            .hint(format!("run `{python} -m pip install 'ray[data]>=2.52'`"))),
        _ => Err(Error::io(format!("{python} is not a working Python: it ended with {status}"))),
    }
}

fn cannot_start(python: &OsStr, error: &std::io::Error) -> Error {
    let needed = "--on ray needs Python with the package `tensorferry[ray]`";
    Error::io(format!("{needed}, and {} cannot be started: {error}", python.display()))
        .hint(format!("set {PYTHON} to another interpreter"))
}
