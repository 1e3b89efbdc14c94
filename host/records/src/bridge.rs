//! The bridge leads from records to tensors and back, so that every format converts to every other.
//!
//! | Records | Tensors |
//! |---|---|
//! | a column of one value a record | `x`, shape `[records]` |
//! | lists of one length, in lists of one length | `x`, shape `[records, length, ...]` |
//! | other lists | `x.values` and `x.row_splits` (I64, one more than there are lists), as `tf.RaggedTensor` has them |
//! | lists of these | `x.values.values`, `x.values.row_splits`, `x.row_splits` |
//! | values that are missing | 0 or empty in `x`, and `x.valid` (BOOL) says which |
//! | a field of a struct | `x.field` |
//! | strings, bytes | STR; with `strings=bytes`, the lists of bytes that they are |
//!
//! Whether lists have one length is known when all records have been read: they have, if all of them say
//! the same length, which is not 0, or if the schema fixes it. A list is written apart from its values where
//! one of these is missing, whatever its length. What a column was called, its type and its lists are kept in
//! the metadata ([`column_metadata::KEY`]) where the target has some, for the way back.
//!
//! Records become tensors by being read once into files without a name (`spool.rs`), over which a catalog
//! lies as over any other input: from there on, the conversion is one of tensors. Tensors become
//! records by being read in windows of rows, as a flow like any other.

pub mod column_metadata;
pub mod column_names;
pub mod column_path;
mod column_spooler;
pub mod crossing;
mod record_tensors;
mod row_column;
pub mod row_records;
mod row_values;
pub mod spool;
pub mod tensor_records;
mod tensor_windows;
mod to_tensors;
pub mod value_types;

pub use to_tensors::{RecordsAsTensors, read};
