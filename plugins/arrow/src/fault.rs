//! Errors of the Arrow libraries as those of this crate.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tensorferry_sdk::arrow_schema::ArrowError;
use tensorferry_sdk::{Error, Result};

/// Calls the library on bytes that may be hostile: its errors and its panics say that they are malformed.
pub(crate) fn decoded<T>(call: impl FnOnce() -> Result<T, ArrowError>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(result) => result.map_err(|error| match error {
            ArrowError::NotYetImplemented(why) => Error::unsupported(one_line(&why)),
            // A type that a later version of Arrow or another library has: nothing is wrong with the file.
            ArrowError::ParseError(why) if why.contains("not supported") || why.contains(" unsupported") => {
                Error::unsupported(format!(
                    "a column has a type that ferry does not have: {}",
                    one_line(&why)
                ))
            }
            other => Error::malformed(one_line(&other.to_string())),
        }),
        Err(payload) => Err(Error::malformed(format!(
            "the bytes make no sense to the Arrow library: {}",
            one_line(text_of(payload.as_ref()))
        ))),
    }
}

/// The error for rows that the library refuses to write.
pub(crate) fn refused(error: ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(inner) => match inner.downcast::<Error>() {
            Ok(own) => *own,
            Err(other) => Error::unsupported(one_line(&other.to_string())),
        },
        other => Error::unsupported(one_line(&other.to_string())).context("Arrow IPC cannot hold these rows"),
    }
}

fn text_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

/// The library's words quote names and values of the file: short, and on one line.
pub(crate) fn one_line(text: &str) -> String {
    let short: String = text.chars().take(500).collect();
    short.escape_debug().to_string().replace("\\'", "'").replace("\\\"", "\"")
}
