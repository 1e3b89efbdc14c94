//! Reads zip archives. The directory at the end of an archive lists its entries, and each entry is
//! checked against its local header.

use crate::directory::{Directory, Entry, Method, Names};
use crate::extent::Extent;
use crate::local;
use std::collections::HashMap;
use tensorferry_sdk::{DigestAlgorithm, Error, Limits, Result, Source};

/// Signature at the start of an archive.
pub const MAGIC: &[u8; 4] = b"PK\x03\x04";
/// Signature at the start of an archive without entries.
pub const EMPTY_MAGIC: &[u8; 4] = b"PK\x05\x06";

/// An uncompressed entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Record {
    pub extent: Extent,
    /// CRC-32 of the bytes; `None` if the writer omitted it (with `compute_crc32=False`, torch
    /// writes 0).
    pub crc: Option<u32>,
}

/// An archive whose directory and local headers have been checked.
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
    pub fn open(source: &dyn Source, extent: Extent, names: Names, limits: &Limits) -> Result<Self> {
        let directory = Directory::read(source, extent, names, limits)?;
        let file_name = source.name(extent.file).to_owned();
        let named = |error: Error| error.file(&file_name);
        let offsets = local::data_offsets(source, extent, &directory).map_err(named)?;
        let names = directory.entries().iter().enumerate();
        let by_name = names.map(|(index, entry)| (entry.name.clone(), index)).collect();
        Ok(Self { extent, file_name, directory, offsets, by_name })
    }

    /// Returns the entries in directory order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        self.directory.entries()
    }

    /// Returns the name of the file that contains the archive.
    #[must_use]
    pub fn file_name(&self) -> &str {
        &self.file_name
    }

    /// Returns whether the archive contains a record with this name, relative to the root.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns the record with this name, relative to the root. Fails if the record is compressed.
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

    /// Returns the record with this name. Fails if the record is missing.
    pub fn required_record(&self, name: &str) -> Result<Record> {
        let record = self.record(name)?;
        record.ok_or_else(|| {
            Error::malformed(format!("the archive has no record {name:?}")).file(&self.file_name)
        })
    }

    /// Returns the extent of an entry's stored bytes.
    pub(crate) fn stored(&self, index: usize) -> Extent {
        let len = self.directory.entries()[index].stored_len;
        Extent { file: self.extent.file, offset: self.offsets[index], len }
    }

    /// Reads all bytes of a small record, and checks the CRC.
    pub fn bytes(&self, source: &dyn Source, record: Record, limits: &Limits) -> Result<Vec<u8>> {
        let bytes = record.extent.read(source, limits)?;
        if let Some(expected) = record.crc {
            let mut sum = DigestAlgorithm::CRC32.start()?;
            sum.update(&bytes);
            let found = sum.digest().value;
            if *found != expected.to_le_bytes() {
                let found = found.iter().rev().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
                let error = Error::malformed("the CRC-32 of a record differs from the directory");
                return Err(self
                    .at(error, record.extent.offset)
                    .expected(format!("{expected:08x}"))
                    .found(found));
            }
        }
        Ok(bytes)
    }

    /// Adds the name of the archive's file and an offset to an error.
    #[must_use]
    pub fn at(&self, error: Error, offset: u64) -> Error {
        error.file(&self.file_name).offset(offset)
    }
}
