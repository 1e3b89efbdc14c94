//! The structures of the Arrow C data interface and the Arrow C stream interface. Rows cross the
//! boundary in these structures. Arrow defines their layout, which is public and never changes
//! (<https://arrow.apache.org/docs/format/CDataInterface.html>, `CStreamInterface.html`). Every
//! Arrow library supports these structures, and a plugin without rows does not need an Arrow
//! library.
//!
//! A structure is passed as a pointer. The receiver moves the structure out, as the interface
//! allows, and then owns it. Dropping the structure calls its `release` function.

use crate::crossing::{Answer, Argument};
use crate::failure::Failure;
use abi_stable::StableAbi;
use std::ffi::{c_char, c_int, c_void};

/// An Arrow schema: one field and its children.
#[repr(C)]
#[derive(StableAbi, Debug)]
#[sabi(unsafe_opaque_fields)]
#[allow(missing_docs, reason = "the fields are Arrow's")]
pub struct ArrowSchema {
    pub format: *const c_char,
    pub name: *const c_char,
    pub metadata: *const c_char,
    pub flags: i64,
    pub n_children: i64,
    pub children: *mut *mut ArrowSchema,
    pub dictionary: *mut ArrowSchema,
    pub release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    pub private_data: *mut c_void,
}

/// The buffers of one Arrow array.
#[repr(C)]
#[derive(StableAbi, Debug)]
#[sabi(unsafe_opaque_fields)]
#[allow(missing_docs, reason = "the fields are Arrow's")]
pub struct ArrowArray {
    pub length: i64,
    pub null_count: i64,
    pub offset: i64,
    pub n_buffers: i64,
    pub n_children: i64,
    pub buffers: *mut *const c_void,
    pub children: *mut *mut ArrowArray,
    pub dictionary: *mut ArrowArray,
    pub release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    pub private_data: *mut c_void,
}

/// A stream of Arrow arrays that share one schema.
#[repr(C)]
#[derive(StableAbi, Debug)]
#[sabi(unsafe_opaque_fields)]
#[allow(missing_docs, reason = "the fields are Arrow's")]
pub struct ArrowArrayStream {
    pub get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    pub get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    pub get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    pub release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    pub private_data: *mut c_void,
}

macro_rules! released {
    ($($name:ident),*) => { $(
        impl Drop for $name {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: this value owns the structure, which has not been released yet. As
                    // the interface requires, `release` is called only once and sets `release` to
                    // null.
                    unsafe { release(self) }
                }
            }
        }
    )* };
}

released!(ArrowSchema, ArrowArray, ArrowArrayStream);

// SAFETY: the interface allows a structure to be moved to a different thread and released there.
unsafe impl Send for ArrowSchema {}
// SAFETY: the interface allows a stream to be moved to a different thread and released there. Only
// one thread at a time calls a stream, because calls need `&mut`.
unsafe impl Send for ArrowArrayStream {}

impl ArrowSchema {
    /// Moves the schema out of another Arrow library's structure, which has the same layout. Leaves
    /// that structure in the released state.
    ///
    /// # Safety
    /// `place` is aligned, and points to a schema that follows the interface, or to a released
    /// structure.
    #[must_use]
    pub unsafe fn from_raw(place: *mut c_void) -> Self {
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { std::ptr::replace(place.cast(), Self::released()) }
    }

    /// Returns a released structure, which is the state after a move.
    #[must_use]
    pub fn released() -> Self {
        // SAFETY: all zeros are a valid value: a released structure.
        unsafe { std::mem::zeroed() }
    }
}

impl ArrowArrayStream {
    /// Moves the stream out of another Arrow library's structure, which has the same layout. Leaves
    /// that structure in the released state.
    ///
    /// # Safety
    /// `place` is aligned, and points to a stream that follows the interface, or to a released
    /// structure.
    #[must_use]
    pub unsafe fn from_raw(place: *mut c_void) -> Self {
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { std::ptr::replace(place.cast(), Self::released()) }
    }

    /// Returns a released structure, which is the state after a move.
    #[must_use]
    pub fn released() -> Self {
        // SAFETY: all zeros are a valid value: a released structure.
        unsafe { std::mem::zeroed() }
    }
}

/// An Arrow structure that the called function may move out. The move leaves a released structure
/// behind.
#[repr(transparent)]
#[derive(StableAbi, Debug)]
pub struct Moved<T>(*mut T);

impl<T> Clone for Moved<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Moved<T> {}

macro_rules! crosses {
    ($($name:ident as $c:literal, $pointer:literal);*) => { $(
        impl Answer for $name {
            type Safe<'s> = Self;
            const C: &'static str = $c;

            fn lower(safe: Self) -> Self {
                safe
            }

            unsafe fn raise<'s>(self) -> Result<Self::Safe<'s>, Failure> {
                Ok(self)
            }
        }

        impl Argument for Moved<$name> {
            type Safe<'a> = &'a mut $name;
            type Stored = Self;
            const C: &'static str = $pointer;

            fn store(safe: &mut $name) -> Self {
                Self(safe)
            }

            fn raw(stored: &mut Self) -> Self {
                *stored
            }

            unsafe fn raise<'a>(self) -> Result<Self::Safe<'a>, Failure> {
                // SAFETY: the caller upholds this function's safety contract.
                unsafe { self.0.as_mut() }.ok_or_else(|| Failure::contract("no Arrow structure"))
            }
        }
    )* };
}

crosses!(
    ArrowSchema as "struct ArrowSchema", "struct ArrowSchema *";
    ArrowArrayStream as "struct ArrowArrayStream", "struct ArrowArrayStream *"
);
