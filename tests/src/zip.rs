//! A stored zip, as small as torch takes it, for archives that no framework would write: the CRCs
//! are 0, which says that there is none to check.

use std::io::{Cursor, Read as _};
use tensorferry_test_kit::zip::Zip;

/// An archive in parts: each member's name and bytes.
pub type Members = Vec<(String, Vec<u8>)>;

/// The parts of an archive.
pub fn members(archive: &[u8]) -> Members {
    let mut archive = ::zip::ZipArchive::new(Cursor::new(archive)).unwrap();
    let indexes = 0..archive.len();
    let member = indexes.map(|index| {
        let mut file = archive.by_index(index).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        (file.name().unwrap().into_owned(), bytes)
    });
    member.collect()
}

/// An archive of these parts without CRCs. With them, damage to the pickle ends at the CRC; without,
/// it reaches the evaluator.
pub fn bare(members: &Members) -> Vec<u8> {
    let members: Vec<_> = members.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    stored(&members)
}

/// An archive of these members, in this order.
pub fn stored(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = Zip::default();
    for (name, bytes) in members {
        zip.member(name, bytes);
    }
    zip.bytes()
}
