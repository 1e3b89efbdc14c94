//! The directory lists an archive's entries. Its names are checked here: each once, and by the rules of
//! the format whose archive it is.

use crate::end;
use crate::extent::Extent;
use crate::fields::{Fields, zip64};
use std::collections::HashSet;
use tensorferry_sdk::{Error, Limits, Result, Source, check_name};

const ENTRY: &[u8; 4] = b"PK\x01\x02";
const ENTRY_LEN: u64 = 46;

/// Encrypted, patched or masked: flags that change what the bytes mean.
const REFUSED_FLAGS: u16 = 0x1 | 0x20 | 0x40;

/// How an entry's bytes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// As they are.
    Stored,
    /// Compressed; TorchScript keeps its source code so, and `numpy.savez_compressed` its arrays.
    Deflated,
}

/// Which names the entries of an archive may have. None is there twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// All lie in one folder, the root, and are called by what follows it; none leaves it, and no two differ in
    /// case alone. An archive has at least one.
    UnderOneRoot,
    /// Any text without a NUL. There may be none.
    Any,
}

/// One entry, as the directory has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name, below the root where there is one; empty for the root folder itself.
    pub name: Box<str>,
    /// How long the whole name is, in the headers.
    pub(crate) raw_name_len: usize,
    /// How its bytes are kept.
    pub method: Method,
    pub(crate) flags: u16,
    /// The CRC-32 of its content.
    pub crc: u32,
    /// Bytes in the archive.
    pub stored_len: u64,
    /// Bytes of its content.
    pub len: u64,
    /// Where its local header is.
    pub(crate) header: u64,
}

impl Entry {
    /// Where its local header is in the file.
    #[must_use]
    pub fn header_offset(&self) -> u64 {
        self.header
    }
}

/// The entries of an archive.
#[derive(Debug)]
pub struct Directory {
    /// The folder that all entries lie in, where they have to lie in one.
    root: Option<Box<str>>,
    entries: Vec<Entry>,
    /// Where the directory begins: every entry's bytes lie before it.
    pub(crate) offset: u64,
}

impl Directory {
    /// Reads the directory; local headers are not looked at.
    ///
    /// # Errors
    /// Malformed or unsupported, with offset and name; a limit on entries or on the directory's length.
    pub fn read(source: &dyn Source, extent: Extent, names: Names, limits: &Limits) -> Result<Self> {
        read(source, extent, names, limits).map_err(|error| error.file(source.name(extent.file)))
    }

    /// Whether `raw` is the whole name of an entry of this directory.
    pub(crate) fn is_name_of(&self, entry: &Entry, raw: &[u8]) -> bool {
        let below = entry.name.as_bytes();
        let Some(root) = &self.root else { return raw == below };
        let rest = raw.strip_prefix(root.as_bytes()).and_then(|rest| rest.strip_prefix(b"/"));
        rest.is_some_and(|rest| {
            rest == below || rest.strip_suffix(b"/") == Some(below) || (rest.is_empty() && below.is_empty())
        })
    }

    /// The entries, in the directory's order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether there is an entry of this name, below the root.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| &*entry.name == name)
    }
}

fn read(source: &dyn Source, extent: Extent, names: Names, limits: &Limits) -> Result<Directory> {
    let end = end::find(source, extent, limits)?;
    if end.entries > limits.entries {
        return Err(Error::limit("too many zip entries")
            .expected(format!("at most {}, or --bound entries=N", limits.entries))
            .found(end.entries));
    }
    if end.entries.saturating_mul(ENTRY_LEN) > end.len {
        return Err(Error::malformed("the zip directory is too short for its entries")
            .offset(end.offset)
            .expected(format!("{} entries of at least {ENTRY_LEN} bytes", end.entries))
            .found(format!("{} bytes", end.len)));
    }
    let bytes = source.read_vec(extent.file, end.offset, end.len, limits)?;
    let mut fields = Fields(&bytes);
    let mut raw_names = Vec::new();
    let mut entries = Vec::new();
    for _ in 0..end.entries {
        let offset = end.offset + (bytes.len() - fields.0.len()) as u64;
        let (name, entry) = entry(&mut fields, extent).map_err(|error| error.offset(offset))?;
        raw_names.push(name);
        entries.push(entry);
    }
    if !fields.0.is_empty() {
        return Err(Error::malformed("the zip directory goes on after its last entry")
            .offset(end.offset + end.len - fields.0.len() as u64)
            .expected(format!("{} entries", end.entries)));
    }
    let root = match names {
        Names::UnderOneRoot => Some(check_names_under_root(&raw_names, &mut entries)?),
        Names::Any => {
            check_any_names(&raw_names, &mut entries)?;
            None
        }
    };
    Ok(Directory { root, entries, offset: end.offset })
}

fn entry<'a>(fields: &mut Fields<'a>, extent: Extent) -> Result<(&'a str, Entry)> {
    if fields.array()? != *ENTRY {
        return Err(Error::malformed("not an entry of a zip directory"));
    }
    // Versions of maker and reader: torch writes zero.
    fields.take(4)?;
    let flags = fields.u16()?;
    let method = method(fields.u16()?)?;
    fields.take(4)?;
    let crc = fields.u32()?;
    let mut stored_len = u64::from(fields.u32()?);
    let mut len = u64::from(fields.u32()?);
    let raw_name_len = usize::from(fields.u16()?);
    let extra_len = fields.u16()?;
    let comment_len = fields.u16()?;
    let mut disk = u32::from(fields.u16()?);
    fields.take(6)?;
    let mut header = u64::from(fields.u32()?);
    let name = fields.take(raw_name_len)?;
    let extra = fields.take(extra_len.into())?;
    fields.take(comment_len.into())?;
    let name = std::str::from_utf8(name).map_err(|_| {
        Error::malformed("the name of a zip entry is not UTF-8").found(String::from_utf8_lossy(name))
    })?;
    let named = |error: Error| error.context(format!("zip entry {name:?}"));
    if flags & REFUSED_FLAGS != 0 {
        return Err(named(Error::unsupported("encrypted or patched").found(format!("flags 0x{flags:04x}"))));
    }
    let mut wide = zip64(extra);
    for number in [&mut len, &mut stored_len, &mut header] {
        if *number == 0xffff_ffff
            && let Some(wide) = &mut wide
        {
            *number = wide.u64().map_err(named)?;
        }
    }
    if disk == 0xffff
        && let Some(wide) = &mut wide
    {
        disk = wide.u32().map_err(named)?;
    }
    if disk != 0 {
        return Err(named(Error::unsupported("on another disk")));
    }
    if method == Method::Stored && stored_len != len {
        let error = Error::malformed("stored, with two lengths").expected(len).found(stored_len);
        return Err(named(error));
    }
    // The archive counts from its own start.
    let header = extent
        .offset
        .checked_add(header)
        .ok_or_else(|| named(Error::malformed("an offset that does not fit 64 bits")))?;
    // The root is cut off once it is known.
    Ok((name, Entry { name: "".into(), raw_name_len, method, flags, crc, stored_len, len, header }))
}

pub(crate) fn method(number: u16) -> Result<Method> {
    match number {
        0 => Ok(Method::Stored),
        8 => Ok(Method::Deflated),
        _ => Err(Error::unsupported("a zip entry's compression method").expected("0 or 8").found(number)),
    }
}

/// Names that need only be told apart.
fn check_any_names(raw: &[&str], entries: &mut [Entry]) -> Result<()> {
    let mut seen = HashSet::with_capacity(raw.len());
    for (&name, entry) in raw.iter().zip(entries) {
        let wrong = |why: &str| Error::malformed(why).offset(entry.header).found(format!("{name:?}"));
        if name.contains('\0') {
            return Err(wrong("the name of a zip entry has a NUL, where other readers end it"));
        }
        if !seen.insert(name) {
            return Err(wrong("two zip entries have one name"));
        }
        entry.name = name.into();
    }
    Ok(())
}

/// The root, once all names are known to be sane.
fn check_names_under_root(raw: &[&str], entries: &mut [Entry]) -> Result<Box<str>> {
    let Some(first) = raw.first() else {
        return Err(Error::malformed("the zip archive is empty"));
    };
    let Some((root, _)) = first.split_once('/') else {
        return Err(Error::malformed("a zip entry outside of any folder").found(format!("{first:?}")));
    };
    let mut seen = HashSet::with_capacity(raw.len());
    for (&name, entry) in raw.iter().zip(entries) {
        let at = |error: Error| error.offset(entry.header);
        // Folders have entries of their own where an archive was packed by hand.
        let plain = if entry.len == 0 { name.strip_suffix('/').unwrap_or(name) } else { name };
        check_name(plain).map_err(|error| at(error.context("zip entry")))?;
        let inside = match plain.strip_prefix(root) {
            Some("") if plain.len() < name.len() => "",
            Some(rest) if rest.starts_with('/') => &rest[1..],
            _ => {
                let error = Error::malformed("a zip entry outside of the archive's root folder");
                return Err(at(error.expected(format!("{root:?}")).found(format!("{name:?}"))));
            }
        };
        if !seen.insert(plain.to_ascii_lowercase()) {
            let error = Error::malformed("two zip entries have one name, or names that differ in case alone");
            return Err(at(error.found(format!("{name:?}"))));
        }
        entry.name = inside.into();
    }
    Ok(root.into())
}
