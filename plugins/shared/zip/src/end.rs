//! Reads the end record, which contains the location of the directory. Numbers that do not fit in
//! its fields are in the zip64 end record, which precedes the end record. If both records contain a
//! number, the two values must be equal.

use crate::extent::Extent;
use crate::fields::Fields;
use tensorferry_sdk::{Error, FileId, Limits, Result, Source};

const END: &[u8; 4] = b"PK\x05\x06";
const END_LEN: u64 = 22;
const ZIP64_END: &[u8; 4] = b"PK\x06\x06";
const ZIP64_END_LEN: u64 = 56;
const ZIP64_LOCATOR: &[u8; 4] = b"PK\x06\x07";
const ZIP64_LOCATOR_LEN: u64 = 20;

/// Maximum distance from the start of the end record to the end of the file. It is determined by
/// the maximum length of a comment. torch tolerates the same number of additional bytes at the end
/// of a file.
const MAX_END_DISTANCE: u64 = 0xffff + END_LEN;

/// Location and size of the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) entries: u64,
    pub(crate) offset: u64,
    pub(crate) len: u64,
}

/// Returns the location of the directory. The directory must end where the end records begin.
pub(crate) fn find(source: &dyn Source, extent: Extent, limits: &Limits) -> Result<End> {
    let (file, extent_end) = (extent.file, extent.end());
    let from = extent_end.saturating_sub(MAX_END_DISTANCE).max(extent.offset);
    let tail = source.read_vec(file, from, extent_end - from, limits)?;
    // Like torch's zip library, this code uses the last complete end record.
    let last_start = tail.len().saturating_sub(22);
    let at = (0..=last_start).rev().find(|&at| tail[at..].starts_with(END)).ok_or_else(|| {
        Error::malformed("the zip archive has no end record; the file may be truncated").offset(extent_end)
    })?;
    let mut fields = Fields(&tail[at + 4..]);
    let at = from + at as u64;
    let end = end_record(&mut fields).map_err(|e| e.offset(at))?;
    // Offsets in the archive are relative to the start of the archive, not the start of the file.
    let in_file = |offset: u64| {
        let sum = extent.offset.checked_add(offset);
        sum.ok_or_else(|| Error::malformed("the offset does not fit in 64 bits").offset(at))
    };
    let (end, records_start) = match locator(source, extent, at, limits)? {
        Some(locator) => {
            let locator = in_file(locator)?;
            (zip64_end(source, file, end, locator, at - ZIP64_LOCATOR_LEN)?, locator)
        }
        None => (end, at),
    };
    let end = End { offset: in_file(end.offset)?, ..end };
    if end.offset.checked_add(end.len) != Some(records_start) {
        return Err(Error::malformed("the zip directory does not end where the end record begins")
            .offset(at)
            .expected(records_start)
            .found(format!("{} bytes at {}", end.len, end.offset)));
    }
    Ok(end)
}

fn end_record(fields: &mut Fields<'_>) -> Result<End> {
    let disk = fields.u16()?;
    let directory_disk = fields.u16()?;
    let entries_here = fields.u16()?;
    let entries = fields.u16()?;
    let len = fields.u32()?;
    let offset = fields.u32()?;
    if disk != 0 || directory_disk != 0 || entries_here != entries {
        return Err(Error::unsupported("the zip archive spans several disks"));
    }
    Ok(End { entries: entries.into(), offset: offset.into(), len: len.into() })
}

/// If a zip64 locator directly precedes the end record, returns the offset of the zip64 end record.
fn locator(source: &dyn Source, extent: Extent, end: u64, limits: &Limits) -> Result<Option<u64>> {
    let at = end.checked_sub(ZIP64_LOCATOR_LEN).filter(|&at| at >= extent.offset);
    let Some(at) = at else { return Ok(None) };
    let bytes = source.read_vec(extent.file, at, ZIP64_LOCATOR_LEN, limits)?;
    let mut fields = Fields(&bytes);
    if fields.array()? != *ZIP64_LOCATOR {
        return Ok(None);
    }
    let disk = fields.u32()?;
    let offset = fields.u64()?;
    let disks = fields.u32()?;
    // The number of disks is 0 or 1 if the archive is on a single disk.
    if disk != 0 || disks > 1 {
        return Err(Error::unsupported("the zip archive spans several disks").offset(at));
    }
    Ok(Some(offset))
}

fn zip64_end(source: &dyn Source, file: FileId, end: End, at: u64, locator: u64) -> Result<End> {
    let cut = || Error::malformed("the zip64 end record does not end where its locator begins").offset(at);
    let room = locator.checked_sub(at).ok_or_else(cut)?;
    if room < ZIP64_END_LEN {
        return Err(cut());
    }
    let mut bytes = [0; 56];
    source.read_at(file, at, &mut bytes)?;
    let mut fields = Fields(&bytes);
    if fields.array()? != *ZIP64_END {
        return Err(Error::malformed("the zip64 locator does not point to a zip64 end record").offset(at));
    }
    // The length does not include the signature and the length field. Writer-specific data may
    // follow the fixed fields.
    if fields.u64()?.checked_add(12) != Some(room) {
        return Err(cut());
    }
    fields.take(4)?;
    let disk = fields.u32()?;
    let directory_disk = fields.u32()?;
    let entries_here = fields.u64()?;
    let wide = End { entries: fields.u64()?, len: fields.u64()?, offset: fields.u64()? };
    if disk != 0 || directory_disk != 0 || entries_here != wide.entries {
        return Err(Error::unsupported("the zip archive spans several disks").offset(at));
    }
    let agrees = |narrow: u64, all_ones: u64, wide: u64| narrow == all_ones || narrow == wide;
    let same = agrees(end.entries, 0xffff, wide.entries)
        && agrees(end.len, 0xffff_ffff, wide.len)
        && agrees(end.offset, 0xffff_ffff, wide.offset);
    if !same {
        return Err(Error::malformed("the zip64 end record and the end record disagree")
            .offset(at)
            .expected(format!("{} entries, {} bytes at {}", end.entries, end.len, end.offset))
            .found(format!("{} entries, {} bytes at {}", wide.entries, wide.len, wide.offset)));
    }
    Ok(wide)
}
