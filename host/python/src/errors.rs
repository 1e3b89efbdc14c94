//! Maps errors to the exceptions of the Python package (`_errors.py`).

use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::borrow::Cow;
use tensorferry::{Error, ErrorKind};
use tensorferry_run::hint::hint;

/// Returns the exception for an error.
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
    details.set_item("hint", hint_for(error))?;
    let exception = make.call1((error.kind().word(), error.to_string(), error.message(), details))?;
    Ok(PyErr::from_value(exception))
}

/// Returns the hint of an error. The general hints of the program name command-line flags, so the
/// Python package has its own hints.
fn hint_for(error: &Error) -> Option<Cow<'static, str>> {
    let has_own = error.details().any(|(name, _)| name == "hint");
    match error.kind() {
        ErrorKind::Limit if !has_own => {
            Some("if you trust the file, raise the limit with tensorferry.configure(limits={...})".into())
        }
        ErrorKind::Plugin if !has_own => {
            Some("run `python -m tensorferry plugin list` to see which plugins were found and refused".into())
        }
        ErrorKind::Transient if !has_own => Some("call the function again".into()),
        _ => hint(error),
    }
}

/// Conversion of the engine's results to Python results.
pub(crate) trait OrRaise<T> {
    /// Returns the value, or the exception for the error.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for tensorferry::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}
