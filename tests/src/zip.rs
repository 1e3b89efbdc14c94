//! A stored zip, as small as torch takes it, for archives that no framework would write: the CRCs
//! are 0, which says that there is none to check.

use std::io::{Cursor, Read as _};

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
    let mut archive = Vec::new();
    let mut directory = Vec::new();
    for (name, bytes) in members {
        let offset = u32::try_from(archive.len()).expect("a small archive");
        let sizes = u32::try_from(bytes.len()).expect("a small member").to_le_bytes();
        let name_len = u16::try_from(name.len()).expect("a short name").to_le_bytes();
        // Version 20, no flags, stored, no time, no CRC.
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        common.extend(sizes);
        common.extend(sizes);
        common.extend(name_len);
        common.extend([0, 0]);

        archive.extend(b"PK\x03\x04");
        archive.extend(&common);
        archive.extend(name.as_bytes());
        archive.extend(*bytes);

        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&common);
        // No comment, disk 0, no attributes.
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let count = u16::try_from(members.len()).expect("few members").to_le_bytes();
    let directory_offset = u32::try_from(archive.len()).expect("a small archive").to_le_bytes();
    let directory_len = u32::try_from(directory.len()).expect("a small directory").to_le_bytes();
    archive.extend(directory);
    archive.extend(b"PK\x05\x06\0\0\0\0");
    archive.extend(count);
    archive.extend(count);
    archive.extend(directory_len);
    archive.extend(directory_offset);
    archive.extend([0, 0]);
    archive
}
