//! Writes a bundle: first the data files, then the index.
//!
//! ```text
//! <prefix>.data-00000-of-0000N    the first of N data files
//! <prefix>.index                  a table of the entries
//! checkpoint                      names the latest prefix; by default only written to a new folder
//! ```
//!
//! Source: `tensorflow/core/util/tensor_bundle/tensor_bundle.cc`.

mod data;
mod entry;
mod files;
mod graph;
mod index;
mod keys;
mod plan;
mod shards;
mod strings;
mod strings_file;
mod template;
#[cfg(test)]
mod tests;
mod writable;
mod writer;

pub(crate) use entry::Entry;
pub(crate) use files::Prefix;
pub(crate) use keys::entries_of_tensors;
pub(crate) use plan::plan_bundle;
pub(crate) use template::Template;
pub(crate) use writable::{WritableTensor, writable_tensors};
pub(crate) use writer::BundleWriter;
