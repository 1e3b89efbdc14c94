//! Conversion of the `parquet` crate's errors. That crate converts every error to a string.
//! [`FirstError`] therefore keeps a stream's first error as a ferry error.

use parquet::errors::ParquetError;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::{Error, ErrorKind, Result};

/// The first error of a stream. Clones share the error.
#[derive(Debug, Clone, Default)]
pub(crate) struct FirstError(Arc<Mutex<Option<Error>>>);

impl FirstError {
    /// Keeps `error` if it is the first error, and returns it as a `parquet` crate error.
    pub(crate) fn keep(&self, error: Error) -> ParquetError {
        let text = error.to_string();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        ParquetError::General(text)
    }

    pub(crate) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Calls the `parquet` crate on untrusted bytes. If the call fails or panics, the bytes are
/// malformed.
pub(crate) fn catch_panic<T>(call: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|error| match error {
            ParquetError::NYI(why) => Error::unsupported(why),
            ParquetError::General(why) | ParquetError::EOF(why) | ParquetError::ArrowError(why) => {
                read_error(&why)
            }
            other => read_error(&other.to_string()),
        }),
        Err(payload) => Err(panic_error(payload.as_ref())),
    }
}

/// Converts the payload of a library panic into an error.
pub(crate) fn panic_error(payload: &(dyn Any + Send)) -> Error {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
    match read_error(text) {
        error if error.kind() == ErrorKind::Unsupported => error,
        _ => Error::malformed(format!("the parquet library cannot read the bytes: {}", one_line(text))),
    }
}

/// Converts a message from the `parquet` crate about unreadable bytes into an error.
pub(crate) fn read_error(why: &str) -> Error {
    let texts = ["key overflow", "KeyOverflow", "too large for index type"];
    if texts.iter().any(|text| why.contains(text)) {
        return Error::unsupported(
            "a row group of a column has more categories than its Arrow key type can count",
        );
    }
    Error::malformed(one_line(why))
}

/// Converts an error that the `parquet` crate returns for rows that it cannot write. The input is
/// not malformed.
pub(crate) fn write_error(error: ParquetError) -> Error {
    match error {
        ParquetError::NYI(why) => Error::unsupported(one_line(&why)),
        other => Error::unsupported(one_line(&other.to_string())).context("Parquet cannot store these rows"),
    }
}

/// Shortens a message from the `parquet` crate to one line. Such a message may quote long names and
/// values from the file.
pub(crate) fn one_line(text: &str) -> String {
    let short: String = text.chars().take(500).collect();
    short.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\"")
}
