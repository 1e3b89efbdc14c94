//! Reads the members of tar archives. Each member is a header of 512 bytes, followed by the
//! content, which is padded to a multiple of 512 bytes.
//!
//! | At | Bytes | |
//! |---|---|---|
//! | 0 | 100 | name, up to the first zero |
//! | 124 | 12 | length, octal; with the first bit set, a big-endian number |
//! | 148 | 8 | sum of the header's bytes, with this field counted as spaces; octal |
//! | 156 | 1 | type: `0` or zero a file, `x` an extended header for the next member |
//! | 257 | 5 | `ustar` |
//!
//! Python's `tarfile` writes a header of type `x` before each member, to store the modification
//! time with fractions of a second. Sources: POSIX.1-2001, `pax`; CPython's `Lib/tarfile.py`.

use crate::Extent;
use std::collections::HashMap;
use tensorferry_sdk::{Error, Limits, Result, Source};

const BLOCK: u64 = 512;
type Block = [u8; 512];
const MAGIC: &[u8; 5] = b"ustar";
const MAGIC_AT: usize = 257;

/// Names of the members that torch writes to an archive.
const NAMES: [&str; 4] = ["sys_info", "pickle", "tensors", "storages"];

/// Maximum length of an extended header. Python writes only a single line.
const MAX_EXTENDED: u64 = 64 << 10;

/// The members of an archive that torch wrote, by name.
#[derive(Debug)]
pub(super) struct Members<'a> {
    file_name: &'a str,
    extents: HashMap<&'static str, Extent>,
}

/// Returns whether a file is a tar archive whose first member has a name that torch writes.
pub(crate) fn is_checkpoint(source: &dyn Source, file: Extent) -> Result<bool> {
    let mut rest = file;
    // An extended header may precede the first member.
    for _ in 0..2 {
        let mut block: Block = [0; 512];
        let block = rest.read_start(source, &mut block)?;
        let Ok(Some(header)) = Header::parse(block) else { return Ok(false) };
        if header.is_file() {
            return Ok(header.known_name().is_some());
        }
        rest = rest.after(BLOCK).after(header.padded_len());
    }
    Ok(false)
}

impl<'a> Members<'a> {
    /// Reads all headers.
    pub(super) fn read(source: &'a dyn Source, file: Extent, limits: &Limits) -> Result<Self> {
        let mut extents = HashMap::new();
        let mut rest = file;
        let mut long = None;
        for _ in 0..limits.entries {
            if rest.len == 0 {
                break;
            }
            let mut block: Block = [0; 512];
            let at = |error: Error| error.offset(rest.offset);
            let Some(header) = Header::parse(rest.read_start(source, &mut block)?).map_err(at)? else {
                break;
            };
            let bytes = rest.after(BLOCK);
            let len = if header.is_file() { long.take().unwrap_or(header.len) } else { header.len };
            let extent = bytes.part(source, bytes.offset, len)?;
            if let Some(name) = header.known_name().filter(|_| header.is_file()) {
                if extents.insert(name, extent).is_some() {
                    return Err(at(Error::malformed(format!("the tar archive has two members {name:?}"))));
                }
            } else if header.kind == b'x' {
                long = extended_len(source, extent, limits).map_err(at)?;
            }
            rest = bytes.after(len.next_multiple_of(BLOCK));
        }
        Ok(Self { file_name: source.name(file.file), extents })
    }

    /// Returns the member with this name, or an error if it is missing.
    pub(super) fn required(&self, name: &str) -> Result<Extent> {
        self.extents.get(name).copied().ok_or_else(|| {
            Error::malformed(format!("the tar archive has no member {name:?}")).file(self.file_name)
        })
    }
}

struct Header<'a> {
    name: &'a [u8],
    len: u64,
    kind: u8,
}

impl<'a> Header<'a> {
    /// Parses a header. Returns `None` for the zeros at the end of an archive.
    fn parse(block: &'a [u8]) -> Result<Option<Self>> {
        let Some(block): Option<&Block> = block.first_chunk() else {
            return Err(Error::malformed("a tar header is truncated")
                .expected("512 bytes")
                .found(block.len()));
        };
        if block.iter().all(|&byte| byte == 0) {
            return Ok(None);
        }
        if block[MAGIC_AT..].starts_with(MAGIC) && octal(&block[148..156]) == Some(sum(block)) {
            let name = block[..100].split(|&byte| byte == 0).next().unwrap_or_default();
            let len = number(&block[124..136]);
            let len = len.ok_or_else(|| Error::malformed("the length of a tar member is not a number"))?;
            return Ok(Some(Self { name, len, kind: block[156] }));
        }
        Err(Error::malformed("invalid tar header"))
    }

    fn is_file(&self) -> bool {
        matches!(self.kind, b'0' | 0)
    }

    fn known_name(&self) -> Option<&'static str> {
        NAMES.into_iter().find(|name| name.as_bytes() == self.name)
    }

    fn padded_len(&self) -> u64 {
        self.len.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX)
    }
}

/// Returns the checksum of a header, which is the sum of its bytes. The bytes of the checksum field
/// count as spaces.
fn sum(block: &[u8]) -> u64 {
    let bytes = block.iter().enumerate();
    bytes.map(|(at, &byte)| if (148..156).contains(&at) { u64::from(b' ') } else { byte.into() }).sum()
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?;
    u64::from_str_radix(text.trim_matches([' ', '\0']), 8).ok()
}

/// Parses a length, which is an octal number, or a big-endian number that follows the byte 0x80.
fn number(field: &[u8]) -> Option<u64> {
    match field {
        [0x80, zeros @ .., _, _, _, _, _, _, _, _] if zeros.iter().all(|&byte| byte == 0) => {
            field.last_chunk().map(|&bytes| u64::from_be_bytes(bytes))
        }
        _ => octal(field),
    }
}

/// Returns the length of the next member if an extended header contains this length. An extended
/// header consists of lines `len key=value`.
fn extended_len(source: &dyn Source, extent: Extent, limits: &Limits) -> Result<Option<u64>> {
    if extent.len > MAX_EXTENDED {
        return Err(Error::malformed("an extended tar header is too long")
            .expected(format!("at most {MAX_EXTENDED} bytes"))
            .found(extent.len));
    }
    let bytes = extent.read(source, limits)?;
    let text = String::from_utf8_lossy(&bytes);
    let value = text.lines().filter_map(|line| line.split_once(' ')?.1.strip_prefix("size=")).next_back();
    let malformed = |value: &str| Error::malformed("the length of a tar member is not a number").found(value);
    value.map(|value| value.parse().map_err(|_| malformed(value))).transpose()
}
