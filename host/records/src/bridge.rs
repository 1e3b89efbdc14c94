//! The bridge converts records to tensors and back, so that every format converts to every other.
//!
//! | Records | Tensors |
//! |---|---|
//! | a column with one value per record | `x`, shape `[records]` |
//! | lists of one length, in lists of one length | `x`, shape `[records, length, ...]` |
//! | other lists | `x.values` and `x.row_splits` (I64, one more than the number of lists), as in `tf.RaggedTensor` |
//! | lists of these | `x.values.values`, `x.values.row_splits`, `x.row_splits` |
//! | missing values | 0 or empty in `x`, and `x.valid` (BOOL) marks the present ones |
//! | a field of a struct | `x.field` |
//! | strings, bytes | STR; with `strings=bytes`, lists of bytes |
//!
//! Whether all lists have one length is known only after reading all records. It holds if every
//! list has the same length, which is not 0, or if the schema fixes it. A list is written apart
//! from its values if one of these is missing, whatever its length. The name, type and lists of a
//! column are kept in the target's metadata ([`column_metadata::KEY`]), if it has any, for the way
//! back.
//!
//! To become tensors, records are read once into unnamed files (`spool.rs`). A catalog describes
//! these files like any other input, and the rest is a conversion of tensors. To become records,
//! tensors are read in windows of rows, as a flow like any other.

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
