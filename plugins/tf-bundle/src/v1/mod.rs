//! A V1 checkpoint is a table that holds tensors themselves, or several such tables, each with some of
//! the slices: what `tf.train.Saver` wrote before bundles, and still writes when it is told to.
//!
//! ```text
//! ""          SavedTensorSlices { meta = 1 { tensor = 1 { name = 1, shape = 2, type = 3, slice = 4 },
//!             versions = 2 } }: the tensors, and which slices of them are in this file
//! slice key   SavedTensorSlices { data = 2 { name = 1, slice = 2, data = 3 } }: a slice's values, a
//!             TensorProto without dtype and shape
//! ```
//!
//! A tensor that is not partitioned has one slice, which is all of it. Blocks are compressed with
//! snappy as a rule, so that values are not in the file as they are: they are decoded when they are
//! asked for, each slice for itself.
//!
//! Sources: `tensorflow/core/util/saved_tensor_slice.proto`, `tensor_slice_writer.cc` and
//! `tensor_slice_reader.cc`.

mod decode;
mod meta;
mod read;

pub(crate) use read::read_v1;

#[cfg(test)]
mod tests;
