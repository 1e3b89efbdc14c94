//! The real frameworks, in a Python environment with pinned versions.
//!
//! `FERRY_INTEROP_VENV` names an existing environment; else one is made in the target folder when
//! it is first needed, and made again when `python/requirements.txt` changes.

use crate::ferry::Outcome;
use crate::workspace::workspace;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Runs one of the scripts in `tests/python`, and expects success.
///
/// # Panics
/// If there are no frameworks, or the script fails.
pub fn script<S: AsRef<OsStr>>(name: &str, arguments: impl IntoIterator<Item = S>) -> Outcome {
    crate::ferry::run(&mut command(name, arguments)).expect(0)
}

/// A script, to be started by the caller.
#[must_use]
pub fn command<S: AsRef<OsStr>>(name: &str, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(interpreter());
    command.arg("-B").arg(scripts().join(name)).args(arguments);
    // TensorFlow's greetings, and its look for graphics cards.
    command
        .env("TF_CPP_MIN_LOG_LEVEL", "3")
        .env("CUDA_VISIBLE_DEVICES", "")
        .env("KERAS_BACKEND", "tensorflow");
    command
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("python")
}

/// Fails where a framework is missing. TensorFlow takes seconds to start, so it is only looked for.
const IMPORTS: &str = "import numpy, safetensors.torch, torch
from importlib.util import find_spec
assert all(find_spec(name) for name in ('tensorflow', 'keras', 'deepspeed', 'transformers'))";

/// The environment's interpreter.
///
/// # Panics
/// If the frameworks cannot be imported or installed: a test that needs them fails, it is not
/// skipped.
#[must_use]
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
            "{} cannot import torch, safetensors, numpy, tensorflow, keras, deepspeed and transformers, which the interop tests need; \
             name an environment that can with FERRY_INTEROP_VENV",
            python.display(),
        );
        python
    })
}

/// The environment, made if it is not there. Other test processes wait for the one that makes it.
fn installed(environment: &Path) -> PathBuf {
    let requirements = scripts().join("requirements.txt");
    let wanted = std::fs::read_to_string(&requirements).unwrap();
    let stamp = environment.join("requirements.installed");
    std::fs::create_dir_all(environment.parent().expect("it lies in the target folder")).unwrap();
    let lock = File::create(environment.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return environment.to_owned();
    }
    eprintln!("installing the frameworks of {} into {}", requirements.display(), environment.display());
    must(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment));
    must(
        Command::new(environment.join("bin/python"))
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"])
            .arg(&requirements),
    );
    // Last: what an interrupted install leaves has no stamp.
    std::fs::write(&stamp, &wanted).unwrap();
    environment.to_owned()
}

fn must(command: &mut Command) {
    let status = command.status();
    assert!(
        status.as_ref().is_ok_and(std::process::ExitStatus::success),
        "the interop tests need python3 with venv and pip, and the frameworks of \
         tests/python/requirements.txt; this failed ({status:?}): {command:?}",
    );
}
