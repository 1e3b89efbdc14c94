//! What `flax.serialization` makes of a tree of arrays: msgpack with extensions. Flax's own files are such, and so is the file
//! `checkpoint` of Orbax and T5X.
//!
//! A file is one msgpack value, almost always a map. Lengths and numbers are big-endian, an array's elements little-endian:
//!
//! ```text
//! 80-8f n, de, df       a map           a0-bf, d9, da, db     text
//! 90-9f n, dc, dd       a list          c4, c5, c6            bytes
//! c7, c8, c9, d4-d8     an extension: its length, its type, its payload
//!
//! type 1, an array      93, a list of the dimensions, the dtype's name as text, the elements as bytes
//! type 2, complex       92, two floats
//! type 3, a scalar      as type 1, without dimensions
//! ```
//!
//! An array of more than 2^30 bytes is a map, whose chunks have one dimension and are joined in the order of their numbers:
//! `{"__msgpack_chunked_array__": true, "shape": {"0": n, ...}, "chunks": {"0": array, ...}}`.
//!
//! | module | what it yields |
//! |---|---|
//! | `document` | a file's tree without its arrays' elements |
//! | `places` | the keys that lead to each value of a document |
//! | `array`, `chunked` | an array, as one extension or as a map of several |
//! | `dtype` | what a dtype's name stands for |
#![forbid(unsafe_code)]

pub mod array;
pub mod chunked;
mod cursor;
pub mod document;
pub mod dtype;
pub mod places;

/// The extension that is an array.
pub const ARRAY: i8 = 1;
/// The extension that is a complex number.
pub const COMPLEX: i8 = 2;
/// The extension that is a numpy scalar.
pub(crate) const SCALAR: i8 = 3;
/// The class of a numpy scalar's node: only then is it written as one again.
pub const SCALAR_CLASS: &str = "numpy.generic";
/// How deep maps and lists may nest: msgpack for Python ends at 1024, trees of modules far before.
pub const MOST_NESTING: usize = 64;

/// What a text begins with that stands for an array in another file: Orbax's, and those of Flax's multi-process checkpoints.
const PLACEHOLDERS: [&str; 4] =
    ["PLACEHOLDER://", "AGGREGATED://", "//GDAPlaceholder:", "//ArrayPlaceholder:"];

/// The name of the array in another file that a text stands for.
#[must_use]
pub fn placeholder(text: &str) -> Option<&str> {
    PLACEHOLDERS.iter().find_map(|start| text.strip_prefix(start))
}
