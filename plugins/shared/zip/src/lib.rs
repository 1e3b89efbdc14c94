//! Reads and writes zip archives of tensors, for the plugins `torch` and `numpy`.
//!
//! | File | Contents |
//! |---|---|
//! | `extent.rs` | a range of a file, because archives can be inside other files |
//! | `archive.rs` | [`Archive`]: the checked entries of a zip file and the locations of their bytes |
//! | `end.rs` | the location of the directory |
//! | `directory.rs` | [`Directory`]: the entries, with checked names |
//! | `local.rs` | the location of each entry's bytes, and a check for overlaps |
//! | `fields.rs` | reading numbers in headers |
//! | `content.rs` | the content of an entry, inflated in bounded pieces |
//! | `layout.rs` | [`ZipLayout`]: an archive as segments of an output |
//! | `deflated.rs` | [`DeflatedLayout`]: an archive whose entries are compressed in parallel |
//!
//! ```text
//! PK\3\4 header, name, extra, bytes [, PK\7\8 descriptor]      one for each entry
//! PK\1\2 header, name, extra, comment                          the directory: one for each entry
//! PK\6\6 zip64 end record, PK\6\7 its locator                  torch always writes them
//! PK\5\6 end record
//! ```
//! Sources: PKWARE's APPNOTE.TXT 6.3.10, `caffe2/serialize/inline_container.cc` and
//! `third_party/miniz-3.0.2/miniz.c` in PyTorch, and `Lib/zipfile` in CPython.
//!
//! This crate does not use the `zip` crate for reading. If two entries have the same name, the
//! `zip` crate keeps only the last entry. If the directory and a local header disagree, it uses the
//! directory. torch ignores case when it looks up names, and uses the local header to locate the
//! bytes of a record. A crafted file could therefore present one content to a checker and a
//! different content to a framework. To prevent this, the crate reads every local header, and
//! rejects the file if a local header and the directory disagree.
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
