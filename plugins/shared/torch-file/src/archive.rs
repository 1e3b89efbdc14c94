//! Zip archives as torch writes them. All records are in one root folder, and those of tensors are
//! not compressed.

pub use tensorferry_zip::{Archive, Directory, Entry, MAGIC, Method, Record};

use crate::Extent;
use tensorferry_sdk::{Error, Limits, Result, Source};
use tensorferry_zip::Names;

/// Reads an archive's directory and every local header. Fails if the record of a tensor is
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

/// Reads only an archive's directory.
pub fn directory(source: &dyn Source, extent: Extent, limits: &Limits) -> Result<Directory> {
    Directory::read(source, extent, Names::UnderOneRoot, limits)
}
