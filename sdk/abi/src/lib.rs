//! Defines the boundary between the `ferry` host and the library of a plugin, as tables of C
//! functions.
//!
//! Plugin authors do not use this crate. In Rust, use `tensorferry-sdk`, which offers the boundary
//! as plain traits. In other languages, use `include/ferry_plugin.h`, which is generated from the
//! declarations in `boundary.rs`.
//!
//! # Rules
//! 1. An object is `{ table, self }`. The table is in static memory, begins with its `size` in
//!    bytes, and grows only at its end. The receiver of an object copies the slots that are part of
//!    its own revision. If a slot is null or past the end of the table, the object does not offer
//!    that function.
//! 2. Every call returns a status. 0 means success. Any other value is an error, and its high 16
//!    bits are a class ([`class`]). The details of the error are passed to the last argument of the
//!    call, an [`ErrorSink`]. Results are written through pointers, but only on success. If the
//!    user has canceled the run, any read or push may fail with [`class::CANCELLED`]. The code that
//!    receives this status returns it to its own caller.
//! 3. An argument that is an object, string or slice is borrowed until the call returns. The
//!    receiver owns objects that are declared as [`Given`] and all objects that are results, and
//!    calls their `drop` once. A returned string or slice remains valid and unchanged for as long
//!    as the called object exists.
//! 4. Many threads may call a `shared` object at the same time. A `sink` is called only by the
//!    thread that received it, during the call. An object must not be dropped before the objects
//!    that it created. Libraries are never unloaded.
//! 5. Text is UTF-8 without a terminator. A [`Flag`] is 0 or 1. A set of values that may grow is
//!    represented by numbers, never by an `enum`. A number that a side does not know is
//!    unsupported, never a default. A request with several fields is a structure that begins with
//!    its size and grows as a table does. Fields that an older side did not send are zero.
//! 6. No panic, exception or jump crosses the boundary.
//! 7. Dtypes cross by their properties. The number of a dtype is valid only in one catalog.
//!
//! # The twin
//! A library in Rust also exports an `abi_stable` root module ([`twin`]), whose layout describes
//! the same tables. A library with different tables is therefore rejected, regardless of what its
//! manifest declares. The error contains the path to the first difference.
//!
//! # Additions
//! A library registers objects by their kind, a string. At present, the only kind is `format`; a
//! host rejects and reports an unknown kind. Purposes and capabilities are bits, and unknown bits
//! have no effect. All unsafe code of the boundary is in this crate. `revision-1.0.txt` is a dump
//! of the frozen declarations, and `sdk/tests/frozen.rs` compares every line of it with the source.

mod arrow;
mod boundary;
mod crossing;
mod data;
mod error_sink;
mod facts;
mod failure;
mod grows;
mod header;
mod manifest;
mod object;
#[cfg(test)]
mod sizes;
mod table;
pub mod twin;

pub use arrow::{ArrowArray, ArrowArrayStream, ArrowSchema, Moved};
pub use boundary::*;
pub use crossing::{Answer, Answers, Argument, Plain};
pub use data::{Bytes, BytesMut, Flag, Ids, Numbers, Pair, Pairs, Text, Word, Words};
pub use error_sink::{ErrorSink, ErrorSinkTable, caught};
pub use failure::{Code, DONE, Failure, Sender, class};
pub use grows::Grows;
pub use header::{header, layout};
pub use manifest::{
    HAS_TWIN, Init, Library, MANIFEST_SYMBOL, Manifest, PREVIEW_SYMBOL, REVISION, formats_of, offered_by,
};
pub use object::{Borrowed, Given, Handle, Lend, ObjectOf, Owned, Shared, Table};

pub use abi_stable;

/// Represents an unknown number.
pub const UNKNOWN: u64 = u64::MAX;
