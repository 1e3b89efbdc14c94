//! Zip archives of tensors, for the plugins whose files are such: `torch` and `numpy`.
//!
//! | File | What it yields |
//! |---|---|
//! | `extent.rs` | a range of a file: archives lie inside other files |
//! | `archive.rs` | [`Archive`]: the entries of a zip file, checked, and where their bytes lie |
//! | `end.rs` | where the directory is |
//! | `directory.rs` | [`Directory`]: the entries, their names checked |
//! | `local.rs` | where each entry's bytes are, and that none overlap |
//! | `fields.rs` | numbers from bytes |
//! | `content.rs` | what an entry holds, inflated in bounded pieces |
//! | `layout.rs` | [`ZipLayout`]: an archive as segments of an output |
//! | `deflated.rs` | [`DeflatedLayout`]: one whose entries are compressed, at the same time |
//!
//! ```text
//! PK\3\4 header, name, extra, bytes [, PK\7\8 descriptor]      one for each entry
//! PK\1\2 header, name, extra, comment                          the directory: one for each entry
//! PK\6\6 zip64 end record, PK\6\7 its locator                  torch always writes them
//! PK\5\6 end record
//! ```
//! Source of the facts: PKWARE's APPNOTE.TXT 6.3.10, `caffe2/serialize/inline_container.cc` and
//! `third_party/miniz-3.0.2/miniz.c` of PyTorch, `Lib/zipfile` of CPython.
//!
//! The `zip` crate is not used for reading: it keeps only the last of two entries with one name,
//! and believes the directory where a local header says something else. torch looks names up
//! without regard to case, and finds a record's bytes behind its local header; so both are ways to
//! show one content to a checker and another one to a framework. Here every local header is read, and
//! where two places of the file disagree, the file is refused.
#![forbid(unsafe_code)]

mod archive;
mod content;
mod deflated;
mod directory;
mod end;
mod extent;
mod fields;
mod layout;
mod local;

pub use archive::{Archive, EMPTY_MAGIC, MAGIC, Record};
pub use content::Member;
pub use deflated::{DeflatedLayout, DeflatedPlan, Deflater};
pub use directory::{Directory, Entry, Method, Names};
pub use extent::Extent;
pub use layout::{ZipLayout, ZipPlan};
