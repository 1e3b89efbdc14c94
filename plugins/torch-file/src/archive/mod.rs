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

pub use directory::{Directory, Entry, Method};

use crate::extent::Extent;
use std::collections::HashMap;
use tensorferry_sdk::{DigestAlgorithm, Error, Limits, Result, Source};

/// The signature that a file begins with if it is an archive.
pub const MAGIC: &[u8; 4] = b"PK\x03\x04";

/// One record: its bytes are stored as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Record {
    /// Where its bytes are.
    pub extent: Extent,
    /// Their CRC-32; `None` if the writer left it out (torch's `compute_crc32=False` writes 0).
    pub crc: Option<u32>,
}

/// A whole archive, checked.
#[derive(Debug)]
pub struct Archive {
    extent: Extent,
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
    pub fn open(source: &dyn Source, extent: Extent, limits: &Limits) -> Result<Self> {
        let directory = Directory::read(source, extent, limits)?;
        let file_name = source.name(extent.file).to_owned();
        let named = |error: Error| error.file(&file_name);
        directory.check_storable().map_err(named)?;
        let offsets = local::data_offsets(source, extent, &directory).map_err(named)?;
        let names = directory.entries().iter().enumerate();
        let by_name = names.map(|(index, entry)| (entry.name.clone(), index)).collect();
        Ok(Self { extent, file_name, directory, offsets, by_name })
    }

    /// The entries, in the directory's order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        self.directory.entries()
    }

    /// The file that it lies in.
    #[must_use]
    pub fn file_name(&self) -> &str {
        &self.file_name
    }

    /// Whether there is a record of this name, below the root.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The record of this name, below the root, if there is one.
    ///
    /// # Errors
    /// Unsupported, if it is compressed.
    pub fn record(&self, name: &str) -> Result<Option<Record>> {
        let Some(&index) = self.by_name.get(name) else { return Ok(None) };
        let entry = &self.directory.entries()[index];
        if entry.method != Method::Stored {
            return Err(self.at(Error::unsupported(format!("record {name:?} is compressed")), entry.header));
        }
        let crc = (entry.crc != 0).then_some(entry.crc);
        let extent = Extent { file: self.extent.file, offset: self.offsets[index], len: entry.len };
        Ok(Some(Record { extent, crc }))
    }

    /// The record of this name.
    ///
    /// # Errors
    /// Malformed, if there is none; as [`record`](Self::record).
    pub fn need(&self, name: &str) -> Result<Record> {
        let record = self.record(name)?;
        record.ok_or_else(|| {
            Error::malformed(format!("the archive has no record {name:?}")).file(&self.file_name)
        })
    }

    /// All bytes of a small record, checked against its CRC.
    ///
    /// # Errors
    /// Malformed, if the CRC differs; a limit, if it is too long to hold; i/o.
    pub fn bytes(&self, source: &dyn Source, record: Record, limits: &Limits) -> Result<Vec<u8>> {
        let bytes = record.extent.read(source, limits)?;
        if let Some(expected) = record.crc {
            let mut sum = DigestAlgorithm::CRC32.start()?;
            sum.update(&bytes);
            let found = sum.digest().value;
            if found != expected.to_le_bytes() {
                let found = found.iter().rev().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
                let error =
                    Error::malformed("a record's bytes do not have the CRC-32 that the directory gives");
                return Err(self
                    .at(error, record.extent.offset)
                    .expected(format!("{expected:08x}"))
                    .found(found));
            }
        }
        Ok(bytes)
    }

    /// An error in this file, at this offset.
    #[must_use]
    pub fn at(&self, error: Error, offset: u64) -> Error {
        error.file(&self.file_name).offset(offset)
    }
}
