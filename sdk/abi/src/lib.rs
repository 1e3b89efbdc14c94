//! The boundary between the `ferry` host and a plugin's library, in tables of C functions.
//!
//! Plugin authors do not use this crate: those who write Rust have `tensorferry-sdk`, which shows its traits
//! as plain Rust; those who write in another language have `include/ferry_plugin.h`, which is made of the same
//! declarations as everything here (`boundary.rs`).
//!
//! # Rules
//! 1. An object is `{ table, self }`. Its table lies in static memory, begins with its `size` in bytes, and grows
//!    at its end only. Who receives an object copies the slots that it knows; a slot that is past the end, or
//!    null, is not offered.
//! 2. Every call returns a status: 0 is done, and anything else an error, whose class stands in the high 16 bits
//!    ([`class`]) and whose details went to the last argument, an [`ErrorSink`]. Results are written where pointers
//!    say, on success alone. When the user has ended the run, whatever is read from or pushed to may fail as
//!    [`class::CANCELLED`], which goes through.
//! 3. An object that arrives as an argument is borrowed until the call returns, and so are texts and slices. One
//!    that is declared as [`Given`], and each that leaves as a result, belongs to the receiver, who calls its
//!    `drop` once. A text or slice that is a result stays valid, and the same, for as long as the object that was called.
//! 4. Objects that are `shared` are called by many threads at once; those that are a `sink` by the thread that
//!    was given them, during the call. A child keeps its parent alive. Libraries are never unloaded.
//! 5. Text is UTF-8 and not terminated. A [`Flag`] is 0 or 1. What may grow is a number, never an `enum`; a number
//!    that a side does not know is unsupported, never a default. Requests of several facts are structures that
//!    begin with their size and grow as tables do; facts that an older side did not send are zeros.
//! 6. No panic, exception or jump crosses.
//! 7. Dtypes cross as facts: their numbers are those of one catalog.
//!
//! # The twin
//! A library in Rust also exports a root module of `abi_stable` ([`twin`]), whose layout names the same tables:
//! so that a library whose tables differ is refused with the place, whatever its manifest claims.

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

/// Stands for a number that is not known.
pub const UNKNOWN: u64 = u64::MAX;
