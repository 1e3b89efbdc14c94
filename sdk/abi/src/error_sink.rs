//! Carries errors and panics across the boundary.

use crate::crossing::Plain;
use crate::data::Text;
use crate::failure::{Code, DONE, Failure, Sender, class};
use crate::grows::{Grows, adopt};
use abi_stable::StableAbi;
use std::any::Any;
use std::cell::RefCell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Receives the reason why a call failed. The sink is valid only during the call to which it is
/// passed.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct ErrorSink {
    #[sabi(unsafe_change_type = ErrorSinkTableRef)]
    table: *const ErrorSinkTable,
    this: *mut c_void,
}

/// The table of functions of [`ErrorSink`].
#[repr(C)]
#[derive(StableAbi, Clone, Copy)]
#[sabi(kind(Prefix(prefix_ref = ErrorSinkTableRef)))]
pub struct ErrorSinkTable {
    /// Length of this table in bytes.
    pub size: usize,
    /// Null, because an error sink is always borrowed.
    pub drop: Option<unsafe extern "C" fn(this: *mut c_void, err: ErrorSink) -> i32>,
    /// Reserved for later revisions.
    #[sabi(last_prefix_field)]
    pub extension: Option<
        unsafe extern "C" fn(this: *mut c_void, id: Text, out: *mut *const c_void, err: ErrorSink) -> i32,
    >,
    /// Sets the message. This function is called before any detail is added. The status is the
    /// return value of the failed call.
    pub message: Option<unsafe extern "C" fn(this: *mut c_void, message: Text) -> i32>,
    /// Adds a detail. The name of a detail is `file`, `tensor`, `offset`, `expected`, `found` or
    /// another word.
    pub detail: Option<unsafe extern "C" fn(this: *mut c_void, name: Text, value: Text) -> i32>,
}

// SAFETY: the structure is `repr(C)` and begins with its size. The other fields are numbers and
// nullable pointers, so all zeros are a valid value.
unsafe impl Grows for ErrorSinkTable {
    /// Length in revision 1.0, without later additions.
    const LEAST: usize = std::mem::offset_of!(Self, detail) + size_of::<usize>();
}

thread_local! {
    static LAST_PANIC_AT: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs a panic hook for this library that prints nothing. The panic message becomes part of
/// the failure of the call, so the host reports it only once.
pub(crate) fn keep_panics_quiet() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string);
        LAST_PANIC_AT.with(|last| *last.borrow_mut() = place);
    }));
}

fn panicked(entry: &str, payload: Box<dyn Any + Send>) -> Failure {
    // Code that cannot return errors panics with the failure from the other side as the payload.
    let payload = match payload.downcast::<Failure>() {
        Ok(failure) => return *failure,
        Err(payload) => payload,
    };
    let message = payload
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
        .to_owned();
    // The destructor of the payload may also panic. The payload of that second panic is leaked,
    // because its destructor could also panic.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(again);
    }
    let place = LAST_PANIC_AT.with(|last| last.borrow_mut().take());
    let place = place.map(|at| format!(" at {at}")).unwrap_or_default();
    Failure::new(class::PLUGIN, format!("panicked in {entry}: {message}{place}"))
}

/// Runs a closure and converts a panic to a failure that names the entry point.
///
/// # Errors
/// Returns the failure of `run`, or a failure that describes its panic.
pub fn caught<T>(entry: &str, run: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| Err(panicked(entry, payload)))
}

/// Runs a call from the other side. A failure or panic is reported to `err` and converted to a
/// status.
///
/// # Safety
/// `err` must follow the crate's rules.
pub(crate) unsafe fn guard(err: ErrorSink, entry: &str, run: impl FnOnce() -> Result<(), Failure>) -> Code {
    let Err(failure) = caught(entry, run) else { return DONE };
    // SAFETY: the caller upholds this function's safety contract.
    unsafe { tell(err, &failure) };
    if failure.code > 0 { failure.code } else { class::PLUGIN << 16 }
}

/// # Safety
/// `err` must follow the crate's rules.
unsafe fn tell(err: ErrorSink, failure: &Failure) {
    // SAFETY: the caller upholds this function's safety contract.
    let Ok(table) = (unsafe { adopt(err.table) }) else { return };
    if let Some(message) = table.message {
        // SAFETY: the string lives until the call returns.
        unsafe { message(err.this, Text::of(&failure.message)) };
    }
    if let Some(detail) = table.detail {
        for (name, value) in &failure.details {
            // SAFETY: the strings live until the call returns.
            unsafe { detail(err.this, Text::of(name), Text::of(value)) };
        }
    }
}

#[derive(Default)]
struct Told {
    message: String,
    details: Vec<(String, String)>,
}

static TELLS: ErrorSinkTable = ErrorSinkTable {
    size: size_of::<ErrorSinkTable>(),
    drop: None,
    extension: None,
    message: Some(told_message),
    detail: Some(told_detail),
};

unsafe extern "C" fn told_message(this: *mut c_void, message: Text) -> Code {
    // SAFETY: `this` points to the `Told` of the current call, and is used on the thread of that
    // call.
    let told = unsafe { &mut *this.cast::<Told>() };
    // SAFETY: the strings are valid until the call returns.
    told.message = unsafe { message.lossy() }.unwrap_or_default();
    DONE
}

unsafe extern "C" fn told_detail(this: *mut c_void, name: Text, value: Text) -> Code {
    // SAFETY: `this` points to the `Told` of the current call, and is used on the thread of that
    // call.
    let told = unsafe { &mut *this.cast::<Told>() };
    // SAFETY: the strings are valid until the call returns.
    let [name, value] = [name, value].map(|text| unsafe { text.lossy() }.unwrap_or_default());
    told.details.push((name, value));
    DONE
}

/// Returns the message for a call that failed without giving a reason.
fn unsaid(code: Code) -> String {
    if (class::MALFORMED..=class::GUESS).contains(&(code >> 16)) {
        return "a call failed and gave no reason".to_owned();
    }
    format!("a call failed with the unknown status {code} and gave no reason")
}

/// Calls an object that `owner` implements. If the call fails, returns the reported reason.
pub(crate) fn call(owner: Sender, run: impl FnOnce(ErrorSink) -> Code) -> Result<(), Failure> {
    let mut told = Told::default();
    let code = run(ErrorSink { table: &raw const TELLS, this: (&raw mut told).cast() });
    if code == DONE {
        return Ok(());
    }
    let Told { mut message, details } = told;
    if message.is_empty() {
        message = unsaid(code);
    }
    Err(Failure { code, message, details, sender: Some(owner) })
}
