//! A V1 checkpoint is a table that contains the tensors themselves. A checkpoint may also consist
//! of several tables, each of which contains some of the slices. Early versions of `tf.train.Saver`
//! write this format by default, and later versions write it on request.
//!
//! ```text
//! ""          SavedTensorSlices { meta = 1 { tensor = 1 { name = 1, shape = 2, type = 3, slice = 4 },
//!             versions = 2 } }: the tensors, and the slices that are in this file
//! slice key   SavedTensorSlices { data = 2 { name = 1, slice = 2, data = 3 } }: a slice's values, a
//!             TensorProto without dtype and shape
//! ```
//!
//! A tensor that is not partitioned has a single slice, which covers the whole tensor. Blocks are
//! usually compressed with snappy, so the values cannot be read directly from the file. ferry
//! decodes each slice separately on request.
//!
//! Sources: `tensorflow/core/util/saved_tensor_slice.proto`, `tensor_slice_writer.cc` and
//! `tensor_slice_reader.cc`.

mod decode;
mod meta;
mod read;

pub(crate) use read::read_v1;

#[cfg(test)]
mod tests;
