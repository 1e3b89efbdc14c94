//! Errors of the engine become exceptions of Python's package, which says what they are (`_errors.py`).

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tensorferry::{Error, ErrorKind};
use tensorferry_run::hint::hint;

/// The exception for an error.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    made(py, error).unwrap_or_else(|failed| failed)
}

fn made(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let make = py.import("tensorferry._errors")?.getattr("make")?;
    let details = PyDict::new(py);
    for (name, value) in error.details() {
        match value.parse::<u64>() {
            Ok(number) if matches!(name, "record" | "offset") => details.set_item(name, number)?,
            _ => details.set_item(name, value)?,
        }
    }
    details.set_item("hint", hint_for(error.kind()))?;
    let exception = make.call1((error.kind().word(), error.to_string(), error.message(), details))?;
    Ok(PyErr::from_value(exception))
}

/// The program's words name its flags, which Python's users do not have.
fn hint_for(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Limit => {
            Some("tensorferry.configure(limits={...}) raises a limit, for a file that you trust")
        }
        ErrorKind::Plugin => {
            Some("`python -m tensorferry plugin list` says what was found, and why a library was refused")
        }
        other => hint(other),
    }
}

/// An error of the engine, or one of Python's.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception for the error.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for tensorferry::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}
