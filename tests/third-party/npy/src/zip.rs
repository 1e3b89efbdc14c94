//! A member is one file of a zip archive: what the archive's directory says of it.
//!
//! | record                    | signature    | fixed bytes | where                                   |
//! |---------------------------|--------------|-------------|-----------------------------------------|
//! | local header              | `PK\x03\x04` | 30          | before each member's bytes              |
//! | directory record          | `PK\x01\x02` | 46          | one for each member, after all of them  |
//! | zip64 end of directory    | `PK\x06\x06` | 56          | only where 16 or 32 bits do not suffice |
//! | zip64 locator             | `PK\x06\x07` | 20          | after that                              |
//! | end of directory          | `PK\x05\x06` | 22          | last, but for a comment                 |
//!
//! Source: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 to 4.5.

pub(crate) mod read;
pub(crate) mod write;

/// A member, as its directory record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) method: Method,
    /// CRC-32 of the bytes before compression.
    pub(crate) crc: u32,
    /// Bytes in the archive.
    pub(crate) stored_len: u64,
    /// Bytes before compression.
    pub(crate) len: u64,
    /// Where its local header begins.
    pub(crate) header_offset: u64,
}

/// How a member's bytes are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Stored,
    Deflated,
}

impl Method {
    fn number(self) -> u16 {
        match self {
            Self::Stored => 0,
            Self::Deflated => 8,
        }
    }
}

const LOCAL_HEADER: u32 = 0x0403_4b50;
const DIRECTORY_RECORD: u32 = 0x0201_4b50;
const ZIP64_END: u32 = 0x0606_4b50;
const ZIP64_LOCATOR: u32 = 0x0706_4b50;
const END: u32 = 0x0605_4b50;

/// The extra field that holds lengths and offsets of 64 bits.
const ZIP64_EXTRA: u16 = 1;
/// Flag: the member is encrypted.
const ENCRYPTED: u16 = 1;
/// Flag: the name is UTF-8.
const UTF8: u16 = 0x800;
