//! A V1 checkpoint is a table that contains the tensors themselves, or several such tables, each
//! with some of the slices. `tf.train.Saver` wrote this format before bundles, and still writes it
//! on request.
//!
//! ```text
//! ""          SavedTensorSlices { meta = 1 { tensor = 1 { name = 1, shape = 2, type = 3, slice = 4 },
//!             versions = 2 } }: the tensors, and which slices of them are in this file
//! slice key   SavedTensorSlices { data = 2 { name = 1, slice = 2, data = 3 } }: a slice's values, a
//!             TensorProto without dtype and shape
//! ```
//!
//! A tensor that is not partitioned has a single slice, which covers it. Blocks are usually
//! compressed with snappy, so the values are not directly in the file. Each slice is decoded on its
//! own when it is requested.
//!
//! Sources: `tensorflow/core/util/saved_tensor_slice.proto`, `tensor_slice_writer.cc` and
//! `tensor_slice_reader.cc`.

mod decode;
mod meta;
mod read;

pub(crate) use read::read_v1;

#[cfg(test)]
mod tests;
