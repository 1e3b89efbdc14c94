//! Opens zip archives that torch wrote. All records are in a single root folder, and the records of
//! tensors are not compressed.

pub use tensorferry_zip::{Archive, Directory, Entry, MAGIC, Method, Record};

use crate::Extent;
use tensorferry_sdk::{Error, Limits, Result, Source};
use tensorferry_zip::Names;

/// Reads an archive's directory and all local headers. Fails if the record of a tensor is
/// compressed.
pub fn open(source: &dyn Source, extent: Extent, limits: &Limits) -> Result<Archive> {
    let archive = Archive::open(source, extent, Names::UnderOneRoot, limits)?;
    let compressed = |entry: &&Entry| entry.method != Method::Stored && entry.name.starts_with("data/");
    match archive.entries().iter().find(compressed) {
        None => Ok(archive),
        Some(entry) => {
            let error = Error::unsupported(format!("record {:?} is compressed", entry.name));
            Err(archive.at(error, entry.header_offset()))
        }
    }
}

/// Reads the directory of an archive, but no local headers.
pub fn directory(source: &dyn Source, extent: Extent, limits: &Limits) -> Result<Directory> {
    Directory::read(source, extent, Names::UnderOneRoot, limits)
}
