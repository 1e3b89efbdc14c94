//! Reads and writes the msgpack encoding of `flax.serialization` for trees of arrays. Flax uses
//! this encoding for its own files. Orbax and T5X use it for the file `checkpoint`.
//!
//! A file is one msgpack value, almost always a map. Lengths and numbers are big-endian, but the
//! elements of arrays are little-endian:
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
//! An array of more than 2^30 bytes is stored as a map: `{"__msgpack_chunked_array__": true,
//! "shape": {"0": n, ...}, "chunks": {"0": array, ...}}`. The chunks are one-dimensional arrays,
//! which are joined in numeric order.
//!
//! | Module | Contents |
//! |---|---|
//! | `document` | the tree of values in a file, without the elements of arrays |
//! | `positions` | the keys on the path to each value of a document |
//! | `array`, `chunked` | an array: a single extension, or a map that contains several |
//! | `dtype` | dtypes by name |
#![forbid(unsafe_code)]

pub mod array;
pub mod chunked;
mod cursor;
pub mod document;
pub mod dtype;
pub mod positions;

/// Extension type of an array.
pub const ARRAY: i8 = 1;
/// Extension type of a complex number.
pub const COMPLEX: i8 = 2;
/// Extension type of a numpy scalar.
pub(crate) const SCALAR: i8 = 3;
/// Class of the node for a numpy scalar. A node with this class is written as a numpy scalar again.
pub const SCALAR_CLASS: &str = "numpy.generic";
/// Maximum nesting depth of maps and lists. Python's msgpack allows 1024 levels, but the parameter
/// trees of models have far fewer.
pub const MAX_NESTING: usize = 64;

/// Prefixes of the strings that are placeholders for an array in a different file. Orbax and Flax's
/// multi-process checkpoints contain such strings.
const PLACEHOLDERS: [&str; 4] =
    ["PLACEHOLDER://", "AGGREGATED://", "//GDAPlaceholder:", "//ArrayPlaceholder:"];

/// If a string is a placeholder for an array in a different file, returns the array's name.
#[must_use]
pub fn placeholder(text: &str) -> Option<&str> {
    PLACEHOLDERS.iter().find_map(|start| text.strip_prefix(start))
}
