//! Converts the Arrow library's errors to ferry's errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tensorferry_sdk::arrow_schema::ArrowError;
use tensorferry_sdk::{Error, Result};

/// Calls the Arrow library on untrusted bytes. Reports the bytes as malformed if the call fails or
/// panics.
pub(crate) fn decoded<T>(call: impl FnOnce() -> Result<T, ArrowError>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|error| match error {
            ArrowError::NotYetImplemented(why) => Error::unsupported(one_line(&why)),
            // The file is valid, but uses a type that the Arrow library does not support.
            ArrowError::ParseError(why) if why.contains("not supported") || why.contains(" unsupported") => {
                Error::unsupported(format!("unsupported column type: {}", one_line(&why)))
            }
            other => Error::malformed(one_line(&other.to_string())),
        }),
        Err(payload) => Err(Error::malformed(format!(
            "the Arrow library cannot read the bytes: {}",
            one_line(text_of(payload.as_ref()))
        ))),
    }
}

/// Converts the error that the Arrow library returns if it cannot write rows.
pub(crate) fn write_error(error: ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(inner) => match inner.downcast::<Error>() {
            Ok(own) => *own,
            Err(other) => Error::unsupported(one_line(&other.to_string())),
        },
        other => {
            Error::unsupported(one_line(&other.to_string())).context("Arrow IPC cannot store these rows")
        }
    }
}

fn text_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// Shortens an error message from the Arrow library to one line. The message may quote long names
/// and values from the file.
pub(crate) fn one_line(text: &str) -> String {
    let short: String = text.chars().take(500).collect();
    short.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\"")
}
