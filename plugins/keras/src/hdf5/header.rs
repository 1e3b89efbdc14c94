//! Reads object headers. An object header is a list of messages that describe an object and the
//! locations of its other parts.
//!
//! ```text
//! version 1   1, 0, count u16, references u32, length u32, 0 u32; then messages:
//!             kind u16, length u16, flags u8, 0 x 3, data
//! version 2   "OHDR", 2, flags, [times 16], [phases 4], length (1, 2, 4 or 8 bytes); then messages:
//!             kind u8, length u16, flags u8, [order u16], data; then a checksum
//!             continued in "OCHK", messages, a checksum
//! ```

use super::file::File;
use hdf5_reader::checksum::jenkins_lookup3;
use hdf5_reader::error::{Error as Fault, Result as Parsed};
use hdf5_reader::io::Cursor;
use std::collections::HashSet;
use tensorferry_sdk::{Error, Result};

pub(crate) const DATASPACE: u16 = 1;
pub(crate) const LINK_INFO: u16 = 2;
pub(crate) const DATATYPE: u16 = 3;
pub(crate) const OLD_FILL_VALUE: u16 = 4;
pub(crate) const FILL_VALUE: u16 = 5;
pub(crate) const LINK: u16 = 6;
pub(crate) const EXTERNAL_FILES: u16 = 7;
pub(crate) const LAYOUT: u16 = 8;
pub(crate) const FILTERS: u16 = 11;
pub(crate) const ATTRIBUTE: u16 = 12;
pub(crate) const SYMBOL_TABLE: u16 = 17;
pub(crate) const ATTRIBUTE_INFO: u16 = 21;
const CONTINUATION: u16 = 16;
/// The highest message type number that HDF5 defines.
const LAST_KIND: u16 = 24;

/// Maximum length of a header in bytes, including all of its continuations. A message is at most 64
/// KiB long.
const MAX_BYTES: u64 = 16 << 20;
const SHARED: u8 = 0x02;
const FAIL_IF_UNKNOWN: u8 = 0x80;

#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) kind: u16,
    flags: u8,
    pub(crate) bytes: Vec<u8>,
}

/// An object header: the messages of an object.
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) address: u64,
    pub(crate) messages: Vec<Message>,
}

/// The version of an object header, which determines the layout of its messages.
#[derive(Clone, Copy)]
enum HeaderVersion {
    One,
    Two { has_order: bool },
}

impl Header {
    /// Reads the messages of the object header at an address, including messages that it shares
    /// with other headers.
    pub(crate) fn read(file: &File<'_>, address: u64) -> Result<Self> {
        let mut messages = read(file, address)?;
        for message in &mut messages {
            if message.flags & SHARED != 0 {
                *message = shared(file, message, address)?;
            }
        }
        Ok(Self { address, messages })
    }

    /// Returns the data of the first message of this kind.
    pub(crate) fn get(&self, kind: u16) -> Option<&[u8]> {
        self.all(kind).next()
    }

    /// Returns the bytes per element of a dataset of integers or floats, or `None` for other types.
    pub(crate) fn number_width(&self) -> Option<u32> {
        let datatype = self.get(DATATYPE)?;
        let width = u32::from_le_bytes(*datatype.get(4..8)?.first_chunk()?);
        matches!(datatype[0] & 15, 0 | 1).then_some(width)
    }

    /// Returns the data of all messages of this kind.
    pub(crate) fn all(&self, kind: u16) -> impl Iterator<Item = &[u8]> {
        self.messages.iter().filter(move |message| message.kind == kind).map(|message| &*message.bytes)
    }
}

fn read(file: &File<'_>, address: u64) -> Result<Vec<Message>> {
    let (version, first) = first_block(file, address)?;
    let mut messages = Vec::new();
    let mut blocks = vec![first];
    let (mut seen, mut total) = (HashSet::from([address]), 0_u64);
    while let Some((start, block)) = blocks.pop() {
        total += block.len() as u64;
        if total > MAX_BYTES {
            let error = Error::limit("an object header is too long");
            return Err(file.at(error.expected(format!("at most {MAX_BYTES} bytes")), address));
        }
        for (at, message) in split(&block, version).map_err(|error| file.at(error, start))? {
            if message.kind != CONTINUATION {
                messages.push(message);
                continue;
            }
            let mut cursor = Cursor::new(&message.bytes);
            let place = cursor
                .read_offset(file.offset_size)
                .and_then(|next| Ok((next, cursor.read_length(file.length_size)?)));
            let (next, len) = file.parsed(place, "an object header's continuation", start + at)?;
            if !seen.insert(next) {
                let error = Error::malformed("an object header is its own continuation");
                return Err(file.at(error, next));
            }
            blocks.push((next, continuation(file, next, len, version)?));
        }
    }
    Ok(messages)
}

fn first_block(file: &File<'_>, address: u64) -> Result<(HeaderVersion, (u64, Vec<u8>))> {
    const WHAT: &str = "an object header";
    let wrong = |why: &str| file.at(Error::malformed(format!("an object header {why}")), address);
    let prefix = file.bytes(address, 16.min(file.len().saturating_sub(address)), WHAT)?;
    if prefix.get(..4) == Some(b"OHDR") {
        let (version, flags) = match prefix.get(4..6) {
            Some(&[version, flags]) => (version, flags),
            _ => return Err(wrong("is truncated")),
        };
        if version != 2 {
            return Err(file.at(Error::unsupported("unknown object header version").found(version), address));
        }
        let width = 1_u64 << (flags & 3);
        let before = 6 + if flags & 0x20 != 0 { 16 } else { 0 } + if flags & 0x10 != 0 { 4 } else { 0 };
        let size = file.bytes(address + before, width, WHAT)?;
        let size = size.iter().rev().fold(0_u64, |size, &byte| size << 8 | u64::from(byte));
        let start = before + width;
        if size > MAX_BYTES {
            return Err(wrong("is too long").expected(format!("at most {MAX_BYTES} bytes")).found(size));
        }
        let block = checked(file, address, start + size)?;
        let version = HeaderVersion::Two { has_order: flags & 0x04 != 0 };
        let messages = block.get(usize::try_from(start).unwrap_or(usize::MAX)..).unwrap_or_default();
        return Ok((version, (address + start, messages.to_vec())));
    }
    match *prefix {
        [1, _, _, _, _, _, _, _, a, b, c, d, ..] => {
            let size = u32::from_le_bytes([a, b, c, d]).into();
            Ok((HeaderVersion::One, (address + 16, file.bytes(address + 16, size, WHAT)?)))
        }
        [version, ..] => Err(wrong("is missing").expected("version 1, or \"OHDR\"").found(version)),
        [] => Err(wrong("is beyond the end of the file")),
    }
}

fn continuation(file: &File<'_>, address: u64, len: u64, version: HeaderVersion) -> Result<Vec<u8>> {
    const WHAT: &str = "an object header's continuation";
    let HeaderVersion::Two { .. } = version else { return file.bytes(address, len, WHAT) };
    let Some(inner) = len.checked_sub(4).filter(|&inner| inner >= 4) else {
        return Err(file.at(Error::malformed(format!("{WHAT} is too short")), address));
    };
    let block = checked(file, address, inner)?;
    block
        .strip_prefix(b"OCHK")
        .map(<[u8]>::to_vec)
        .ok_or_else(|| file.at(Error::malformed(format!("{WHAT} has no signature")), address))
}

/// Reads `len` bytes and the checksum that follows them. Fails if the checksum is wrong.
fn checked(file: &File<'_>, address: u64, len: u64) -> Result<Vec<u8>> {
    let mut block = file.bytes(address, len.saturating_add(4), "an object header")?;
    let sum = block.split_off(block.len().saturating_sub(4));
    let sum = sum.iter().rev().fold(0_u32, |sum, &byte| sum << 8 | u32::from(byte));
    let found = jenkins_lookup3(&block);
    if sum == found {
        return Ok(block);
    }
    let error = Error::malformed("wrong checksum of an object header");
    Err(file.at(error.expected(format!("{sum:08x}")).found(format!("{found:08x}")), address))
}

/// Splits a block into messages. Returns each message with its offset in the block.
fn split(block: &[u8], version: HeaderVersion) -> Result<Vec<(u64, Message)>> {
    let prefix_len = match version {
        HeaderVersion::One => 8,
        HeaderVersion::Two { has_order: false } => 4,
        HeaderVersion::Two { has_order: true } => 6,
    };
    let mut found = Vec::new();
    let mut at = 0_usize;
    // If too few bytes remain for a message prefix, these bytes are an unused gap.
    while let Some(prefix) = block.get(at..at + prefix_len) {
        let (kind, len, flags) = match (version, prefix) {
            (HeaderVersion::One, [k0, k1, l0, l1, flags, ..]) => {
                (u16::from_le_bytes([*k0, *k1]), u16::from_le_bytes([*l0, *l1]), *flags)
            }
            (_, [kind, l0, l1, flags, ..]) => (u16::from(*kind), u16::from_le_bytes([*l0, *l1]), *flags),
            _ => break,
        };
        let start = at + prefix_len;
        let bytes = block.get(start..start + usize::from(len)).ok_or_else(|| {
            Error::malformed("a message is longer than its object header")
                .expected(format!("at most {} bytes", block.len() - start))
                .found(len)
        })?;
        if kind > LAST_KIND && flags & FAIL_IF_UNKNOWN != 0 {
            return Err(Error::unsupported("an unknown message that readers must not ignore").found(kind));
        }
        if kind != 0 {
            found.push((at as u64, Message { kind, flags, bytes: bytes.to_vec() }));
        }
        at = start + usize::from(len);
    }
    Ok(found)
}

/// Returns the message that a shared message refers to. The referenced message is in the object
/// header of a named datatype.
fn shared(file: &File<'_>, message: &Message, address: u64) -> Result<Message> {
    shared_data(file, message.kind, &message.bytes, address).map(|bytes| Message {
        bytes,
        flags: 0,
        ..*message
    })
}

/// Returns the data of a message that is in a different object header. `bytes` is the encoded
/// reference to that message.
pub(crate) fn shared_data(file: &File<'_>, kind: u16, bytes: &[u8], address: u64) -> Result<Vec<u8>> {
    let other = shared_address(bytes, file.offset_size, file.length_size);
    let Some(other) = file.parsed(other, "a shared message", address)? else {
        let error = Error::unsupported("the file has a table of shared messages")
            .hint("rewrite the file with h5repack");
        return Err(file.at(error, address));
    };
    let found = read(file, other)?.into_iter().find(|found| found.kind == kind && found.flags & SHARED == 0);
    found
        .map(|found| found.bytes)
        .ok_or_else(|| file.at(Error::malformed("a shared message is missing"), other))
}

/// Parses a reference to a shared message. Returns the address of the object header that contains
/// the message, or `None` if the message is in the file's table of shared messages. In version 1,
/// the reference is a symbol table entry, in which the address follows the offset of a name.
fn shared_address(bytes: &[u8], offset_size: u8, length_size: u8) -> Parsed<Option<u64>> {
    const IN_TABLE: u8 = 1;
    let mut cursor = Cursor::new(bytes);
    let (version, kind) = (cursor.read_u8()?, cursor.read_u8()?);
    match version {
        1 => cursor.skip(6 + usize::from(length_size))?,
        2 => {}
        3 if kind == IN_TABLE => return Ok(None),
        3 => {}
        other => return Err(Fault::InvalidData(format!("version {other}"))),
    }
    cursor.read_offset(offset_size).map(Some)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn shared_messages_of_all_versions_have_an_address() {
        let address = [0x34, 0x12, 0, 0, 0, 0, 0, 0];
        for before in [&[1, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9][..], &[2, 0], &[3, 2]] {
            let bytes = [before, &address].concat();
            assert_eq!(shared_address(&bytes, 8, 8).unwrap(), Some(0x1234), "{before:?}");
            assert!(shared_address(&bytes[..bytes.len() - 1], 8, 8).is_err());
        }
        assert_eq!(shared_address(&[3, 1, 0, 0, 0, 0, 0, 0, 0, 0], 8, 8).unwrap(), None);
        assert!(shared_address(&[4, 2, 0, 0, 0, 0, 0, 0, 0, 0], 8, 8).is_err());
    }
}
