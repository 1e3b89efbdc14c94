//! An archive is a zip file: entries side by side, found through the directory at the end, each of them
//! held against its local header.

use crate::directory::{Directory, Entry, Method, Names};
use crate::extent::Extent;
use crate::local;
use std::collections::HashMap;
use tensorferry_sdk::{DigestAlgorithm, Error, Limits, Result, Source};

/// The signature that a file begins with if it is an archive.
pub const MAGIC: &[u8; 4] = b"PK\x03\x04";
/// The signature that an archive without entries begins with.
pub const EMPTY_MAGIC: &[u8; 4] = b"PK\x05\x06";

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
    pub fn open(source: &dyn Source, extent: Extent, names: Names, limits: &Limits) -> Result<Self> {
        let directory = Directory::read(source, extent, names, limits)?;
        let file_name = source.name(extent.file).to_owned();
        let named = |error: Error| error.file(&file_name);
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

    /// Where the bytes of an entry are kept.
    pub(crate) fn stored(&self, index: usize) -> Extent {
        let len = self.directory.entries()[index].stored_len;
        Extent { file: self.extent.file, offset: self.offsets[index], len }
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
            if *found != expected.to_le_bytes() {
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
