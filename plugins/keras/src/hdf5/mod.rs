//! Reads the structure of untrusted HDF5 files, including the locations of their data. Also plans
//! new HDF5 files.
//!
//! | File | Content |
//! |---|---|
//! | `file.rs` | [`File`]: the superblock, and bounded reads |
//! | `header.rs` | an object's messages |
//! | `links.rs` | a group's children |
//! | `attributes.rs` | an object's attributes |
//! | `heaps.rs` | strings of variable length |
//! | `datatype.rs` | the type of an element |
//! | `layout.rs` | the location of a dataset's elements, according to its header |
//! | `dataset.rs` | [`Dataset`]: the shape, and the type and location of the elements |
//! | `chunks.rs` | the chunks of a dataset |
//! | `filters.rs` | decoding of chunks |
//! | `walk.rs` | all datasets of a file |
//! | `write.rs` | planning of new files |
//!
//! The crate `hdf5-reader` parses the superblock, B-trees, heaps, and the six kinds of chunk
//! indexes. This module does not use the crate's file traversal, which follows soft links and
//! ignores broken links. This module also does not use the crate's datatype parser. That parser
//! drops the layout of floats and the precision of integers, so some numbers would silently be read
//! incorrectly.

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
pub(crate) use dataset::{DataLocation, Dataset};
pub(crate) use datatype::Element;
pub(crate) use file::{File, SIGNATURE, TextBudget, find_signature};
pub(crate) use filters::EncodedChunk;
pub(crate) use header::Header;
pub(crate) use walk::{Object, walk};
