//! The C structure in which batches cross between Arrow libraries of any version and language.
#![expect(unsafe_code, reason = "a structure of C functions")]

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use std::ffi::{c_char, c_int, c_void};
use tensorferry_sdk::arrow_array;

/// `struct ArrowArrayStream` of the Arrow C stream interface
/// (<https://arrow.apache.org/docs/format/CStreamInterface.html>): a schema, then arrays until one is released
/// already. To hand it over, write it to where the other library wants it ([`std::ptr::write`]) or give a
/// pointer to it, whose contents that library moves out. What nobody has taken over is released when it is dropped.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowArrayStream {
    /// Fills the `struct ArrowSchema` that the second argument points to; 0, or an `errno`.
    pub get_schema: Option<unsafe extern "C" fn(*mut Self, *mut c_void) -> c_int>,
    /// Fills the `struct ArrowArray` that the second argument points to; 0, or an `errno`.
    pub get_next: Option<unsafe extern "C" fn(*mut Self, *mut c_void) -> c_int>,
    /// What went wrong last, as a C string that lives until the next call; or null.
    pub get_last_error: Option<unsafe extern "C" fn(*mut Self) -> *const c_char>,
    /// Ends the stream and sets itself to null.
    pub release: Option<unsafe extern "C" fn(*mut Self)>,
    /// What the functions keep.
    pub private_data: *mut c_void,
}

const _: () = assert!(size_of::<ArrowArrayStream>() == size_of::<FFI_ArrowArrayStream>());

// SAFETY: the interface lets a stream move between threads, though only one at a time may call it; what is
// behind it is a reader that is `Send`.
unsafe impl Send for ArrowArrayStream {}

impl ArrowArrayStream {
    pub(crate) fn new(batches: Box<dyn RecordBatchReader + Send>) -> Self {
        // SAFETY: both are the structure that the interface fixes, of five pointers.
        unsafe { std::mem::transmute(FFI_ArrowArrayStream::new(batches)) }
    }
}

impl Drop for ArrowArrayStream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it has not been released: the function would be null.
            unsafe { release(self) }
        }
    }
}
