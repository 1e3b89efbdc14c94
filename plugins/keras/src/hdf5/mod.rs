//! HDF5 files, read without trust: what is in them, and where it lies.
//!
//! | File | What it yields |
//! |---|---|
//! | `file.rs` | [`File`]: the superblock, and bounded reads |
//! | `header.rs` | an object's messages |
//! | `links.rs` | a group's children |
//! | `attributes.rs` | an object's attributes |
//! | `heaps.rs` | texts of variable length |
//! | `datatype.rs` | what an element is |
//! | `layout.rs` | where a dataset's elements are, as its header says it |
//! | `dataset.rs` | [`Dataset`]: shape, elements, and where they lie |
//! | `chunks.rs` | the chunks of a dataset |
//! | `filters.rs` | a chunk, decoded |
//! | `walk.rs` | all datasets of a file |
//! | `write.rs` | a file that is planned |
//!
//! The crate `hdf5-reader` parses what is intricate: the superblock, B-trees, heaps, and the six indices of chunks. Its
//! own way through a file is not taken: it follows soft links, passes over links that lead nowhere, and its datatypes
//! have neither the layout of floats nor the precision of integers, so that some would be read wrong without a word.

mod attributes;
mod chunks;
mod dataset;
mod datatype;
mod file;
mod filters;
mod header;
mod heaps;
mod layout;
mod links;
mod walk;
pub(crate) mod write;

pub(crate) use attributes::Attributes;
pub(crate) use chunks::Chunks;
pub(crate) use dataset::{Dataset, Place};
pub(crate) use datatype::Element;
pub(crate) use file::{File, Held, SIGNATURE, find_signature};
pub(crate) use filters::EncodedChunk;
pub(crate) use header::Header;
pub(crate) use walk::{Object, walk};
