//! Reads the directory, which lists the entries of an archive. The names of the entries must be
//! unique and follow the naming rule of the format.

use crate::end;
use crate::extent::Extent;
use crate::fields::{Fields, zip64};
use std::collections::HashSet;
use tensorferry_sdk::{Error, Limits, Result, Source, check_name};

const ENTRY: &[u8; 4] = b"PK\x01\x02";
const ENTRY_LEN: u64 = 46;

/// Flags that change the meaning of an entry's bytes: encryption, patches or masked headers.
const REFUSED_FLAGS: u16 = 0x1 | 0x20 | 0x40;

/// The compression method of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Stored,
    /// TorchScript uses this method for its source code, and `numpy.savez_compressed` uses it for
    /// arrays.
    Deflated,
}

/// The rule that entry names must follow. Names must always be unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// All entries are in a single root folder, and names are relative to it. No name refers to a
    /// location outside of the root, and no two names differ only in case. The archive has at least
    /// one entry.
    UnderOneRoot,
    /// A name is any string without NUL characters. The archive may be empty.
    Any,
}

/// An entry as the directory describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name relative to the root, if there is a root. The name of the root folder itself is empty.
    pub name: Box<str>,
    /// Length of the full name in the headers.
    pub(crate) raw_name_len: usize,
    pub method: Method,
    pub(crate) flags: u16,
    /// CRC-32 of the content.
    pub crc: u32,
    /// Length of the stored bytes.
    pub stored_len: u64,
    /// Length of the content in bytes.
    pub len: u64,
    /// Offset of the local header.
    pub(crate) header: u64,
}

impl Entry {
    /// Returns the offset of the local header in the file.
    #[must_use]
    pub fn header_offset(&self) -> u64 {
        self.header
    }
}

#[derive(Debug)]
pub struct Directory {
    /// Name of the root folder, if the name rule requires a root folder.
    root: Option<Box<str>>,
    entries: Vec<Entry>,
    /// Offset of the directory. The bytes of all entries precede it.
    pub(crate) offset: u64,
}

impl Directory {
    /// Reads the directory without reading local headers.
    pub fn read(source: &dyn Source, extent: Extent, names: Names, limits: &Limits) -> Result<Self> {
        read(source, extent, names, limits).map_err(|error| error.file(source.name(extent.file)))
    }

    /// Returns whether `raw` is the full name of this entry.
    pub(crate) fn is_name_of(&self, entry: &Entry, raw: &[u8]) -> bool {
        let below = entry.name.as_bytes();
        let Some(root) = &self.root else { return raw == below };
        let rest = raw.strip_prefix(root.as_bytes()).and_then(|rest| rest.strip_prefix(b"/"));
        rest.is_some_and(|rest| {
            rest == below || rest.strip_suffix(b"/") == Some(below) || (rest.is_empty() && below.is_empty())
        })
    }

    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns whether there is an entry with this name, relative to the root.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.entries.iter().any(|entry| &*entry.name == name)
    }
}

fn read(source: &dyn Source, extent: Extent, names: Names, limits: &Limits) -> Result<Directory> {
    let end = end::find(source, extent, limits)?;
    if end.entries > limits.entries {
        return Err(Error::limit("too many zip entries")
            .hint("raise the limit with --limit entries=N")
            .expected(format!("at most {}", limits.entries))
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
        return Err(Error::malformed("extra bytes after the last entry of the zip directory")
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
        return Err(Error::malformed("not a zip directory entry"));
    }
    // The versions of the writer and the reader are skipped, because torch writes zeros for them.
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
        let error =
            Error::malformed("the two lengths of a stored entry differ").expected(len).found(stored_len);
        return Err(named(error));
    }
    // Offsets in the archive are relative to the start of the archive, not the start of the file.
    let header = extent
        .offset
        .checked_add(header)
        .ok_or_else(|| named(Error::malformed("the offset does not fit in 64 bits")))?;
    // The caller sets the name after determining the root folder.
    Ok((name, Entry { name: "".into(), raw_name_len, method, flags, crc, stored_len, len, header }))
}

pub(crate) fn method(number: u16) -> Result<Method> {
    match number {
        0 => Ok(Method::Stored),
        8 => Ok(Method::Deflated),
        _ => Err(Error::unsupported("a zip entry has an unknown compression method")
            .expected("0 or 8")
            .found(number)),
    }
}

/// Checks names under the rule [`Names::Any`].
fn check_any_names(raw: &[&str], entries: &mut [Entry]) -> Result<()> {
    let mut seen = HashSet::with_capacity(raw.len());
    for (&name, entry) in raw.iter().zip(entries) {
        let wrong = |why: &str| Error::malformed(why).offset(entry.header).found(format!("{name:?}"));
        if name.contains('\0') {
            return Err(wrong("the name of a zip entry contains a NUL"));
        }
        if !seen.insert(name) {
            return Err(wrong("two zip entries have the same name"));
        }
        entry.name = name.into();
    }
    Ok(())
}

/// Checks that all names are valid paths in a single root folder, and returns the name of this
/// folder.
fn check_names_under_root(raw: &[&str], entries: &mut [Entry]) -> Result<Box<str>> {
    let Some(first) = raw.first() else {
        return Err(Error::malformed("the zip archive has no entries"));
    };
    let Some((root, _)) = first.split_once('/') else {
        return Err(Error::malformed("a zip entry is not in a folder").found(format!("{first:?}")));
    };
    let mut seen = HashSet::with_capacity(raw.len());
    for (&name, entry) in raw.iter().zip(entries) {
        let at = |error: Error| error.offset(entry.header);
        // Archives that users packed manually may contain entries for folders.
        let plain = if entry.len == 0 { name.strip_suffix('/').unwrap_or(name) } else { name };
        check_name(plain).map_err(|error| at(error.context("zip entry")))?;
        let inside = match plain.strip_prefix(root) {
            Some("") if plain.len() < name.len() => "",
            Some(rest) if rest.starts_with('/') => &rest[1..],
            _ => {
                let error = Error::malformed("a zip entry is outside of the archive's root folder");
                return Err(at(error.expected(format!("{root:?}")).found(format!("{name:?}"))));
            }
        };
        if !seen.insert(plain.to_ascii_lowercase()) {
            let error = Error::malformed("two zip entries have names that are equal or differ only in case");
            return Err(at(error.found(format!("{name:?}"))));
        }
        entry.name = inside.into();
    }
    Ok(root.into())
}
