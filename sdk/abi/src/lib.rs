//! The boundary between the `ferry` host and the library of a plugin, as tables of C functions.
//!
//! Plugin authors do not use this crate. In Rust, use `tensorferry-sdk`, which offers the boundary
//! as plain traits. In other languages, use `include/ferry_plugin.h`, which is generated from the
//! same declarations as everything here (`boundary.rs`).
//!
//! # Rules
//! 1. An object is `{ table, self }`. Its table is in static memory, begins with its `size` in
//!    bytes, and grows only at its end. The receiver of an object copies the slots that it knows. A
//!    slot that is null or past the end is not offered.
//! 2. Every call returns a status. 0 means success. Any other value is an error: its high 16 bits
//!    are a class ([`class`]), and its details were passed to the last argument, an [`ErrorSink`].
//!    Results are written through pointers, only on success. If the user has canceled the run, any
//!    read or push may fail with [`class::CANCELLED`], which must be passed on.
//! 3. An argument that is an object, string or slice is borrowed until the call returns. Objects
//!    that are declared as [`Given`], and all objects that are results, belong to the receiver,
//!    which calls their `drop` once. A string or slice that is a result stays valid and unchanged
//!    for as long as the called object exists.
//! 4. A `shared` object is called by many threads at once. A `sink` is called only by the thread
//!    that received it, during the call. A child keeps its parent alive. Libraries are never
//!    unloaded.
//! 5. Text is UTF-8 and not terminated. A [`Flag`] is 0 or 1. A set of values that may grow is
//!    represented by numbers, never by an `enum`. A number that a side does not know is
//!    unsupported, never a default. A request with several facts is a structure that begins with
//!    its size and grows as a table does. Facts that an older side did not send are zero.
//! 6. No panic, exception or jump crosses the boundary.
//! 7. Dtypes cross by their properties. The number of a dtype is valid only in one catalog.
//!
//! # The twin
//! A library in Rust also exports a root module of `abi_stable` ([`twin`]), whose layout names the
//! same tables. A library whose tables differ is therefore refused, and the error names the path to
//! the difference, regardless of its manifest.
//!
//! # Additions
//! A library registers objects by their kind, a string. Today the only kind is `format`; a host
//! refuses an unknown kind and reports it. Purposes and capabilities are bits, and unknown bits have
//! no effect. All unsafe code of the boundary is in this crate. `revision-1.0.txt` is a dump of the
//! frozen declarations, and `sdk/tests/frozen.rs` compares every line of it with the source.

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
