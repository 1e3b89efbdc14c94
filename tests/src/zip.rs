//! Uncompressed zip archives that contain only the parts that torch needs, for tests of archives
//! that no framework writes. The CRCs are 0, which means that they are not checked.

use std::io::{Cursor, Read as _};
use tensorferry_test_kit::zip::Zip;

/// The names and bytes of the members of an archive.
pub type Members = Vec<(String, Vec<u8>)>;

/// Returns the members of an archive.
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

/// Returns an archive of these members without CRCs. With CRCs, damage to a pickle would be
/// rejected before the evaluator reads the pickle.
pub fn bare(members: &Members) -> Vec<u8> {
    let members: Vec<_> = members.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    stored(&members)
}

/// Returns an archive of these members, in this order.
pub fn stored(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = Zip::default();
    for (name, bytes) in members {
        zip.member(name, bytes);
    }
    zip.bytes()
}
