//! A stored zip, as small as torch takes it, for archives that no framework would write: the CRCs
//! are 0, which says that there is none to check.

/// An archive of these members, in this order.
///
/// # Panics
/// If it does not fit a zip without zip64.
#[must_use]
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
