//! An archive is a zip file as torch writes it: records side by side, each under one root folder,
//! found through the directory at the end.
//!
//! ```text
//! PK\3\4 header, name, extra, bytes [, PK\7\8 descriptor]      one for each record
//! PK\1\2 header, name, extra, comment                          the directory: one for each record
//! PK\6\6 zip64 end record, PK\6\7 its locator                  torch always writes them
//! PK\5\6 end record
//! ```
//! Source of the facts: PKWARE's APPNOTE.TXT 6.3.10, `caffe2/serialize/inline_container.cc` and
//! `third_party/miniz-3.0.2/miniz.c` of PyTorch.
//!
//! The `zip` crate is not used for reading: it keeps only the last of two entries with one name,
//! and believes the directory where a local header says something else. torch looks names up
//! without regard to case, and finds a record's bytes behind its local header; so both are ways to
//! show one content to a checker and another one to torch. Here every local header is read, and
//! where two places of the file disagree, the file is refused.
//!
//! | File | What it yields |
//! |---|---|
//! | `end.rs` | where the directory is |
//! | `directory.rs` | the entries, their names checked |
//! | `local.rs` | where each entry's bytes are, and that none overlap |
//! | `fields.rs` | numbers from bytes |

mod directory;
mod end;
mod fields;
mod local;

pub(crate) use directory::{Directory, Method};

use std::collections::HashMap;
use tensorferry_sdk::{DigestAlgorithm, Error, FileId, Limits, Result, Source};

/// The signature that a file begins with if it is an archive.
pub(crate) const MAGIC: &[u8; 4] = b"PK\x03\x04";

/// One record: its bytes are stored as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Record {
    /// Its place in the directory: below [`Archive::len`].
    pub(crate) entry: usize,
    /// Where its bytes begin in the file.
    pub(crate) offset: u64,
    /// How many there are.
    pub(crate) len: u64,
    /// Their CRC-32; `None` if the writer left it out (torch's `compute_crc32=False` writes 0).
    pub(crate) crc: Option<u32>,
}

/// A whole archive, checked.
#[derive(Debug)]
pub(crate) struct Archive {
    file: FileId,
    file_name: String,
    directory: Directory,
    offsets: Vec<u64>,
    by_name: HashMap<Box<str>, usize>,
}

impl Archive {
    /// Reads the directory and every local header.
    ///
    /// # Errors
    /// Malformed or unsupported, with the offset and the entry; a limit on entries.
    pub(crate) fn open(source: &dyn Source, file: FileId, limits: &Limits) -> Result<Self> {
        let directory = Directory::read(source, file, limits)?;
        let named = |error: Error| error.file(source.name(file));
        directory.check_storable().map_err(named)?;
        let offsets = local::data_offsets(source, file, &directory).map_err(named)?;
        let names = directory.entries().iter().enumerate();
        let by_name = names.map(|(index, entry)| (entry.name.clone(), index)).collect();
        Ok(Self { file, file_name: source.name(file).to_owned(), directory, offsets, by_name })
    }

    /// The file that it is.
    pub(crate) fn file(&self) -> FileId {
        self.file
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether there is a record of this name, below the root.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The record of this name, below the root, if there is one.
    ///
    /// # Errors
    /// Unsupported, if it is compressed.
    pub(crate) fn record(&self, name: &str) -> Result<Option<Record>> {
        let Some(&index) = self.by_name.get(name) else { return Ok(None) };
        let entry = &self.directory.entries()[index];
        if entry.method != Method::Stored {
            return Err(self.at(Error::unsupported(format!("record {name:?} is compressed")), entry.header));
        }
        let crc = (entry.crc != 0).then_some(entry.crc);
        Ok(Some(Record { entry: index, offset: self.offsets[index], len: entry.len, crc }))
    }

    /// The record of this name.
    ///
    /// # Errors
    /// Malformed, if there is none; as [`record`](Self::record).
    pub(crate) fn need(&self, name: &str) -> Result<Record> {
        let record = self.record(name)?;
        record.ok_or_else(|| {
            Error::malformed(format!("the archive has no record {name:?}")).file(&self.file_name)
        })
    }

    /// All bytes of a small record, checked against its CRC.
    ///
    /// # Errors
    /// Malformed, if the CRC differs; a limit, if it is too long to hold; i/o.
    pub(crate) fn bytes(&self, source: &dyn Source, record: Record, limits: &Limits) -> Result<Vec<u8>> {
        let bytes = source.read_vec(self.file, record.offset, record.len, limits)?;
        if let Some(expected) = record.crc {
            let mut sum = DigestAlgorithm::CRC32.start()?;
            sum.update(&bytes);
            let found = sum.digest().value;
            if found != expected.to_le_bytes() {
                let found = found.iter().rev().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
                let error =
                    Error::malformed("a record's bytes do not have the CRC-32 that the directory gives");
                return Err(self.at(error, record.offset).expected(format!("{expected:08x}")).found(found));
            }
        }
        Ok(bytes)
    }

    /// An error in this file, at this offset.
    pub(crate) fn at(&self, error: Error, offset: u64) -> Error {
        error.file(&self.file_name).offset(offset)
    }
}
