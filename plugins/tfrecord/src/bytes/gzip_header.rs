//! Parses the header of a gzip member.
//!
//! ```text
//! 1f 8b 08   magic, deflate
//! u8         flags: 2 header CRC, 4 extra, 8 name, 16 comment
//! 6 bytes    time, extra flags, system
//! u16 n, n   if extra
//! ... 0      if name; the same again if comment
//! u16        if header CRC: the low half of the CRC-32 of the preceding bytes
//! ```
//!
//! Source: RFC 1952.

use super::Input;
use std::ops::Deref;
use tensorferry_sdk::{Error, Result, Source};

const HEADER_CRC: u8 = 2;
const EXTRA: u8 = 4;
const NAME: u8 = 8;
const COMMENT: u8 = 16;

/// Reads a header from the input.
pub(super) fn take<S: Deref<Target: Source>>(input: &mut Input<S>) -> Result<()> {
    let mut header = Header { start: input.position(), input, crc: crc32fast::Hasher::new() };
    if [header.byte()?, header.byte()?, header.byte()?] != [0x1f, 0x8b, 8] {
        return Err(header.malformed("invalid header of a gzip member"));
    }
    let flags = header.byte()?;
    if flags & !(1 | HEADER_CRC | EXTRA | NAME | COMMENT) != 0 {
        return Err(header.malformed("the header of a gzip member has undefined flags"));
    }
    for _ in 0..6 {
        header.byte()?;
    }
    if flags & EXTRA != 0 {
        let len = u16::from_le_bytes([header.byte()?, header.byte()?]);
        for _ in 0..len {
            header.byte()?;
        }
    }
    for text in [NAME, COMMENT] {
        if flags & text != 0 {
            while header.byte()? != 0 {}
        }
    }
    if flags & HEADER_CRC != 0 {
        let crc = header.crc.clone().finalize().to_le_bytes();
        if [header.byte()?, header.byte()?] != [crc[0], crc[1]] {
            return Err(header.malformed("the checksum of a gzip header does not match"));
        }
    }
    Ok(())
}

struct Header<'a, S> {
    start: u64,
    input: &'a mut Input<S>,
    crc: crc32fast::Hasher,
}

impl<S: Deref<Target: Source>> Header<'_, S> {
    fn byte(&mut self) -> Result<u8> {
        let byte = self
            .input
            .byte()?
            .ok_or_else(|| self.malformed("the file ends inside the header of a gzip member"))?;
        self.crc.update(&[byte]);
        Ok(byte)
    }

    fn malformed(&self, message: &str) -> Error {
        Error::malformed(format!("{message}, at byte {} of the compressed file", self.start))
    }
}
