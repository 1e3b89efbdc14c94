//! The bridge converts records to tensors and back, so that ferry can convert every format to every
//! other format.
//!
//! | Records | Tensors |
//! |---|---|
//! | a column with one value per record | `x`, shape `[records]` |
//! | lists of one length, in lists of one length | `x`, shape `[records, length, ...]` |
//! | other lists | `x.values` and `x.row_splits` (I64, one more than the number of lists), as in `tf.RaggedTensor` |
//! | other lists, nested in lists | `x.values.values`, `x.values.row_splits`, `x.row_splits` |
//! | missing values | 0 or empty in `x`, and `x.valid` (BOOL) is true where a value is present |
//! | a field of a struct | `x.field` |
//! | strings, bytes | STR; with `strings=bytes`, lists of bytes |
//!
//! Lists have one length if the schema fixes the length, or if all lists have the same length,
//! which must not be 0. Equal lengths are known only after all records are read. If any value in a
//! list is missing, the column's lists become values and row splits, regardless of their lengths.
//! If the target format supports metadata, a metadata entry ([`column_metadata::KEY`]) stores the
//! name, type and lists of each column. If the tensors are converted back to records, ferry uses
//! this entry.
//!
//! To convert records to tensors, the records are read once into unnamed files (`spool.rs`). A
//! catalog describes these files like any other tensor input, and the rest of the conversion
//! handles only tensors. To convert tensors to records, the tensors are read in windows of rows,
//! and each window becomes a batch of a flow.

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
