//! A bundle is a V2 checkpoint: a table that describes the tensors, and files with their bytes.
//!
//! ```text
//! P.index                   a table: key -> message
//!   ""                      BundleHeaderProto: number of data files, byte order, version
//!   slice key               BundleEntryProto of one part of a tensor
//!   name                    BundleEntryProto: dtype, shape, and where the bytes are; or, for a tensor
//!                           in parts, its slices, each of which has an entry under its slice key
//! P.data-00000-of-00002     bytes, at the offsets in the entries, with any gaps
//! P.data-00001-of-00002
//!
//! numbers    row-major, in the byte order of the header; the checksum covers the stored bytes
//! strings    n varints: the lengths; u32: masked CRC-32C of the lengths, each as u32 (or u64 if it
//!            is too large); the concatenated strings. The entry's checksum covers the lengths in that
//!            form, the stored checksum, and the strings
//! ```
//! Sources: tensorflow/core/util/tensor_bundle/tensor_bundle.cc and
//! tensorflow/core/protobuf/tensor_bundle.proto.

mod content;
mod entry;
mod index;
mod runs;
mod shards;
mod slices;
mod string_tensor;
mod strings;
mod tensor_adder;
#[cfg(test)]
mod tests;

pub(crate) use entry::{BundleEntry, shape_of};
pub(crate) use index::BundleIndex;
pub(crate) use runs::Runs;
pub(crate) use shards::{DATA_INFIX, data_file, has_data_files};
pub(crate) use slices::region as slice_region;
pub(crate) use string_tensor::StringTensors;
pub(crate) use strings::append_length;
pub(crate) use tensor_adder::TensorAdder;

pub(crate) const INDEX_SUFFIX: &str = ".index";
/// The key of the object graph in TensorFlow 2 checkpoints. The value is a scalar string.
pub(crate) const OBJECT_GRAPH_KEY: &str = "_CHECKPOINTABLE_OBJECT_GRAPH";
