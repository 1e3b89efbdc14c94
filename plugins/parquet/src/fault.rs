//! Errors of the `parquet` crate as those of this one. The library carries errors as text, so the first error
//! that a stream meets is kept in its own type beside it.

use parquet::errors::ParquetError;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::{Error, ErrorKind, Result};

/// The first error that the parts of a stream met. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct FirstError(Arc<Mutex<Option<Error>>>);

impl FirstError {
    /// Keeps `error`, and gives the library one that says that it is here.
    pub(crate) fn keep(&self, error: Error) -> ParquetError {
        let text = error.to_string();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        ParquetError::General(text)
    }

    /// The error that was kept, if there is one.
    pub(crate) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Calls the library on bytes that may be hostile: its errors and its panics say that they are malformed.
pub(crate) fn decoded<T>(call: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|error| match error {
            ParquetError::NYI(why) => Error::unsupported(why),
            ParquetError::General(why) | ParquetError::EOF(why) | ParquetError::ArrowError(why) => {
                of_library(&why)
            }
            other => of_library(&other.to_string()),
        }),
        Err(payload) => Err(panicked(payload.as_ref())),
    }
}

/// What a panic of the library over hostile bytes means.
pub(crate) fn panicked(payload: &(dyn Any + Send)) -> Error {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
    match of_library(text) {
        error if error.kind() == ErrorKind::Unsupported => error,
        _ => Error::malformed(format!("the bytes make no sense to the parquet library: {}", one_line(text))),
    }
}

/// The error for what the library says of bytes that it reads.
pub(crate) fn of_library(why: &str) -> Error {
    let texts = ["key overflow", "KeyOverflow", "too large for index type"];
    if texts.iter().any(|text| why.contains(text)) {
        return Error::unsupported(
            "a column has more categories in one row group than the keys of its Arrow type can count",
        );
    }
    Error::malformed(one_line(why))
}

/// The error for rows that the library refuses to write: there is nothing malformed about an input's file here.
pub(crate) fn refused(error: ParquetError) -> Error {
    match error {
        ParquetError::NYI(why) => Error::unsupported(one_line(&why)),
        other => Error::unsupported(one_line(&other.to_string())).context("Parquet cannot hold these rows"),
    }
}

/// The library's words quote names and values of the file: short, and on one line.
pub(crate) fn one_line(text: &str) -> String {
    let short: String = text.chars().take(500).collect();
    short.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\"")
}
