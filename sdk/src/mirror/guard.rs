//! Turns panics and errors into results that cross the boundary, and back.

use crate::{Error, ErrorKind, Result};
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tensorferry_abi::abi_stable::std_types::{RErr, ROk, RString, RVec, Tuple2};
use tensorferry_abi::{AbiError, AbiResult};

thread_local! {
    static LAST_PANIC_AT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Sets this library's panic hook to one that writes nothing: the message goes into the error that
/// [`guard`] makes, and the host says it once, in its own words.
pub(crate) fn keep_panics_quiet() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string);
        LAST_PANIC_AT.with(|last| *last.borrow_mut() = place);
    }));
}

/// Runs one call of the other side; a panic becomes an error that names the entry point.
pub(super) fn guard<T>(entry: &str, call: impl FnOnce() -> Result<T>) -> AbiResult<T> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => ROk(value),
        Ok(Err(error)) => RErr(to_abi(&error)),
        Err(payload) => RErr(to_abi(&panicked(entry, payload))),
    }
}

/// As [`guard`], for calls that cannot say that they failed.
pub(super) fn guard_or<T>(default: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(default)
}

fn panicked(entry: &str, payload: Box<dyn Any + Send>) -> Error {
    let message = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
        .to_owned();
    // The payload's own destructor may panic too.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    let place = LAST_PANIC_AT.with(|last| last.borrow_mut().take());
    let place = place.map(|at| format!(" at {at}")).unwrap_or_default();
    Error::plugin(format!("panicked in {entry}: {message}{place}"))
}

/// Something of the plugin's author, dropped under a guard.
pub(super) struct Held<T: ?Sized>(Option<Box<T>>);

impl<T: ?Sized> Held<T> {
    pub(super) fn new(value: Box<T>) -> Self {
        Self(Some(value))
    }

    pub(super) fn get(&self) -> Result<&T> {
        self.0.as_deref().ok_or_else(|| Error::plugin("called after it was closed"))
    }

    pub(super) fn close(&mut self) -> AbiResult<()> {
        let value = self.0.take();
        guard("drop", || {
            drop(value);
            Ok(())
        })
    }
}

impl<T: ?Sized> Drop for Held<T> {
    fn drop(&mut self) {
        let _ = self.close();
    }
}

/// The numbers of [`ErrorKind`] at the boundary: append, never renumber.
const KINDS: [(u32, ErrorKind); 10] = [
    (1, ErrorKind::Malformed),
    (2, ErrorKind::Unsupported),
    (3, ErrorKind::Limit),
    (4, ErrorKind::Io),
    (5, ErrorKind::Transient),
    (6, ErrorKind::Plugin),
    (7, ErrorKind::Usage),
    (8, ErrorKind::Verification),
    (9, ErrorKind::Cancelled),
    (10, ErrorKind::Guess),
];

fn to_abi(error: &Error) -> AbiError {
    let kind = KINDS.iter().find(|(_, kind)| *kind == error.kind()).map_or(6, |(number, _)| *number);
    let details = error.details().map(|(name, value)| Tuple2(name.into(), value.into())).collect();
    AbiError { kind, message: error.message().into(), details }
}

fn from_abi(error: AbiError) -> Error {
    let kind = KINDS.iter().find(|(number, _)| *number == error.kind);
    let start = Error::new(kind.map_or(ErrorKind::Plugin, |(_, kind)| *kind), error.message);
    error.details.iter().fold(start, |error, Tuple2(name, value)| error.with_detail(name, value))
}

/// What the other side returned, as a result again.
pub(super) fn received<T>(result: AbiResult<T>) -> Result<T> {
    result.into_result().map_err(from_abi)
}

/// Owned pairs, as they cross.
pub(super) fn pairs<'a>(
    items: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> RVec<Tuple2<RString, RString>> {
    items.into_iter().map(|(key, value)| Tuple2(key.into(), value.into())).collect()
}
