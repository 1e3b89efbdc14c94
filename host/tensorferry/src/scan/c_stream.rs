//! The C structure that passes batches between Arrow libraries of any version and language.
#![expect(unsafe_code, reason = "the structure holds C functions")]

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use std::ffi::{c_char, c_int, c_void};
use tensorferry_sdk::arrow_array;

/// The `struct ArrowArrayStream` of the Arrow C stream interface
/// (<https://arrow.apache.org/docs/format/CStreamInterface.html>): a schema, then arrays until one
/// is marked as released.
///
/// There are two ways to pass the stream to a different library: write it to the address that the
/// library provides ([`std::ptr::write`]), or pass a pointer from which the library moves the
/// contents. A stream that has not been moved is released on drop.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowArrayStream {
    /// Fills the `struct ArrowSchema` to which the second argument points. Returns 0 or an `errno`.
    pub get_schema: Option<unsafe extern "C" fn(*mut Self, *mut c_void) -> c_int>,
    /// Fills the `struct ArrowArray` to which the second argument points. Returns 0 or an `errno`.
    pub get_next: Option<unsafe extern "C" fn(*mut Self, *mut c_void) -> c_int>,
    /// Returns the last error as a C string that is valid until the next call, or null if there is
    /// no error.
    pub get_last_error: Option<unsafe extern "C" fn(*mut Self) -> *const c_char>,
    /// Releases the stream and sets this field to null.
    pub release: Option<unsafe extern "C" fn(*mut Self)>,
    /// The private state of the functions.
    pub private_data: *mut c_void,
}

const _: () = assert!(size_of::<ArrowArrayStream>() == size_of::<FFI_ArrowArrayStream>());

// SAFETY: the interface lets a stream move between threads as long as only one thread at a time
// calls the stream. The reader behind the stream is `Send`.
unsafe impl Send for ArrowArrayStream {}

impl ArrowArrayStream {
    pub(crate) fn new(batches: Box<dyn RecordBatchReader + Send>) -> Self {
        // SAFETY: both types consist of five pointers, which is the layout that the interface
        // specifies.
        unsafe { std::mem::transmute(FFI_ArrowArrayStream::new(batches)) }
    }
}

impl Drop for ArrowArrayStream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the stream has not been released yet; otherwise `release` would be null.
            unsafe { release(self) }
        }
    }
}
