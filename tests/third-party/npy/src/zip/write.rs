//! Writes an archive's records. Their lengths do not depend on the CRCs, so a writer that knows
//! everything else can leave room for them.

use super::{DIRECTORY_RECORD, END, LOCAL_HEADER, Member, UTF8, ZIP64_END, ZIP64_EXTRA, ZIP64_LOCATOR};

/// From here on lengths and offsets are written in 64 bits. A little below 4 GiB, because the room for a member's
/// header is left before it is known how much deflate makes of it.
const WIDE: u64 = 0xf000_0000;

/// The DOS date 1980-01-01: the same input gives the same bytes.
const DATE: u16 = 0x21;

/// What stands before a member's bytes.
pub(crate) fn local_header(member: &Member) -> Vec<u8> {
    let Member { crc, stored_len, len, .. } = *member;
    let mut extra = Vec::new();
    if member.is_wide() {
        extra.extend(ZIP64_EXTRA.to_le_bytes());
        extra.extend(16_u16.to_le_bytes());
        extra.extend(len.to_le_bytes());
        extra.extend(stored_len.to_le_bytes());
    }
    let mut bytes = LOCAL_HEADER.to_le_bytes().to_vec();
    common_fields(&mut bytes, member, member.is_wide());
    bytes.extend(crc.to_le_bytes());
    bytes.extend(narrow(stored_len, member.is_wide()));
    bytes.extend(narrow(len, member.is_wide()));
    bytes.extend(u16_len(&member.name));
    bytes.extend(u16_len(&extra));
    bytes.extend(member.name.as_bytes());
    bytes.extend(extra);
    bytes
}

/// The directory of these members, which begins at `offset`, and its end. Whether offsets have 64 bits depends on what
/// `offset` may be at most: so does the directory's length, which is then known before the offsets are.
pub(crate) fn directory(members: &[Member], offset: u64, most_offset: u64) -> Vec<u8> {
    let is_far = most_offset >= WIDE;
    let mut bytes = Vec::new();
    for member in members {
        directory_record(&mut bytes, member, is_far);
    }
    let records = members.len() as u64;
    let len = bytes.len() as u64;
    let is_wide = records >= 0xffff || is_far || len >= WIDE;
    if is_wide {
        bytes.extend(ZIP64_END.to_le_bytes());
        bytes.extend(44_u64.to_le_bytes());
        bytes.extend(45_u16.to_le_bytes());
        bytes.extend(45_u16.to_le_bytes());
        bytes.extend([0; 8]);
        for field in [records, records, len, offset] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(ZIP64_LOCATOR.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend((offset + len).to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
    }
    bytes.extend(END.to_le_bytes());
    bytes.extend([0; 4]);
    let few = if is_wide { u16::MAX } else { u16::try_from(records).unwrap_or(u16::MAX) };
    bytes.extend(few.to_le_bytes());
    bytes.extend(few.to_le_bytes());
    bytes.extend(narrow(len, is_wide));
    bytes.extend(narrow(offset, is_wide));
    bytes.extend([0; 2]);
    bytes
}

fn directory_record(bytes: &mut Vec<u8>, member: &Member, is_far: bool) {
    let mut wide = Vec::new();
    if member.is_wide() {
        wide.extend(member.len.to_le_bytes());
        wide.extend(member.stored_len.to_le_bytes());
    }
    if is_far {
        wide.extend(member.header_offset.to_le_bytes());
    }
    let mut extra = Vec::new();
    if !wide.is_empty() {
        extra.extend(ZIP64_EXTRA.to_le_bytes());
        extra.extend(u16_len(&wide));
        extra.extend(wide);
    }
    let version = version(!extra.is_empty());
    bytes.extend(DIRECTORY_RECORD.to_le_bytes());
    bytes.extend(version.to_le_bytes());
    common_fields(bytes, member, !extra.is_empty());
    bytes.extend(member.crc.to_le_bytes());
    bytes.extend(narrow(member.stored_len, member.is_wide()));
    bytes.extend(narrow(member.len, member.is_wide()));
    bytes.extend(u16_len(&member.name));
    bytes.extend(u16_len(&extra));
    // No comment, first disk, no attributes.
    bytes.extend([0; 10]);
    bytes.extend(narrow(member.header_offset, is_far));
    bytes.extend(member.name.as_bytes());
    bytes.extend(extra);
}

/// The fields that both kinds of header have first: version, flags, method, time.
fn common_fields(bytes: &mut Vec<u8>, member: &Member, is_wide: bool) {
    let flags = if member.name.is_ascii() { 0 } else { UTF8 };
    for field in [version(is_wide), flags, member.method.number(), 0, DATE] {
        bytes.extend(field.to_le_bytes());
    }
}

fn version(is_wide: bool) -> u16 {
    if is_wide { 45 } else { 20 }
}

fn narrow(value: u64, is_wide: bool) -> [u8; 4] {
    let narrow = if is_wide { u32::MAX } else { u32::try_from(value).unwrap_or(u32::MAX) };
    narrow.to_le_bytes()
}

/// The length in 16 bits. Names were checked against [`Member::MOST_NAME_BYTES`], and an extra
/// field is at most 28 bytes.
fn u16_len(bytes: impl AsRef<[u8]>) -> [u8; 2] {
    u16::try_from(bytes.as_ref().len()).unwrap_or(u16::MAX).to_le_bytes()
}

impl Member {
    /// What a record has room for.
    pub(crate) const MOST_NAME_BYTES: usize = u16::MAX as usize;

    /// Its bytes in the archive at most: what cannot be compressed is stored, with five bytes more for every 16 KiB.
    pub(crate) fn most_stored_len(&self) -> u64 {
        self.len.saturating_add((self.len / (16 << 10) + 1) * 5)
    }

    fn is_wide(&self) -> bool {
        self.len >= WIDE
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::zip::Method;
    use crate::zip::read::Archive;
    use tensorferry_sdk::{Limits, MemorySource, Source};

    /// The directory alone, told to lie far behind: nobody has these files at hand.
    #[test]
    fn lengths_and_offsets_of_64_bits_come_back() {
        let member = |name: &str, len: u64, header_offset: u64| Member {
            name: name.to_owned(),
            method: Method::Stored,
            crc: 7,
            stored_len: len,
            len,
            header_offset,
        };
        let members = [
            member("small", 10, 0),
            member("long", 5 << 30, 1000),
            member("far", 10, 6 << 30),
            member("caf\u{e9}", 5 << 30, 7 << 30),
        ];
        let source = MemorySource::file("x", directory(&members, 0, 8 << 30));
        let archive =
            Archive { source: &source, file: source.open("x").unwrap(), limits: &Limits::default() };
        let read = archive.members().unwrap();
        assert_eq!(read.iter().map(|(_, member)| member.clone()).collect::<Vec<_>>(), members);
        for (offset, member) in read {
            assert_eq!(archive.member_at(offset).unwrap(), member);
        }
    }

    #[test]
    fn more_members_than_16_bits_count_come_back() {
        let member = |index: u64| Member {
            name: index.to_string(),
            method: Method::Deflated,
            crc: 0,
            stored_len: 2,
            len: 0,
            header_offset: index,
        };
        for count in [0xfffe, 0xffff, 0x1_0000] {
            let members: Vec<Member> = (0..count).map(member).collect();
            let source = MemorySource::file("x", directory(&members, 0, 0));
            let archive =
                Archive { source: &source, file: source.open("x").unwrap(), limits: &Limits::default() };
            assert_eq!(archive.members().unwrap().len() as u64, count);
        }
    }
}
