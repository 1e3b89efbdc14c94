//! Reads local headers. A local header precedes the bytes of each entry, and must match the
//! directory. Entries must not overlap each other or the directory.

use crate::directory::{Directory, Entry, method};
use crate::extent::Extent;
use crate::fields::{Fields, zip64};
use std::ops::Range;
use tensorferry_sdk::{Error, FileId, FileRange, Result, Source};

const HEADER: &[u8; 4] = b"PK\x03\x04";
const HEADER_LEN: u64 = 30;

/// Maximum number of bytes per read of local headers.
const HEADER_BYTES_PER_READ: u64 = 1 << 20;

/// Flag: the sizes and the CRC follow the bytes of the entry, and are zero in the local header.
const DESCRIPTOR_FOLLOWS: u16 = 0x8;

/// Returns the offset of each entry's bytes.
pub(crate) fn data_offsets(source: &dyn Source, extent: Extent, directory: &Directory) -> Result<Vec<u64>> {
    let entries = directory.entries();
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|&index| entries[index].header);
    let mut offsets = vec![0; entries.len()];
    let mut headers = Headers::new(source, extent.file, directory.offset);
    let mut free_from = extent.offset;
    for (place, &index) in order.iter().enumerate() {
        let entry = &entries[index];
        let named = |error: Error| error.context(format!("zip entry {:?}", entry.name)).offset(entry.header);
        if entry.header < free_from {
            return Err(named(
                Error::malformed("overlaps the entry before it").expected(format!("at {free_from} or later")),
            ));
        }
        let next = order[place..].iter().map(|&index| &entries[index]);
        let offset = data_offset(&mut headers, entry, directory, next).map_err(named)?;
        free_from =
            offset.checked_add(entry.stored_len).filter(|&end| end <= directory.offset).ok_or_else(|| {
                named(
                    Error::malformed("reaches into the zip directory")
                        .expected(format!("an end at {} or before", directory.offset))
                        .found(format!("{} bytes at {offset}", entry.stored_len)),
                )
            })?;
        offsets[index] = offset;
    }
    Ok(offsets)
}

/// A reader of local headers and names, which reads them in batches. With thousands of entries, a
/// separate read for each header would dominate the time.
struct Headers<'a> {
    source: &'a dyn Source,
    file: FileId,
    /// End of the range from which headers may be read.
    end: u64,
    bytes: Vec<u8>,
    /// Ranges in `bytes` of the headers that have been read but not returned, in reverse order.
    ahead: Vec<Range<usize>>,
}

impl<'a> Headers<'a> {
    fn new(source: &'a dyn Source, file: FileId, end: u64) -> Self {
        Self { source, file, end, bytes: Vec::new(), ahead: Vec::new() }
    }

    /// Returns the header of the first entry in `entries`. Each later call must pass the entries
    /// that follow.
    fn next<'e>(&mut self, entries: impl Iterator<Item = &'e Entry>) -> Result<&[u8]> {
        if self.ahead.is_empty() {
            self.read(entries)?;
        }
        Ok(self.ahead.pop().map_or(&[], |range| &self.bytes[range]))
    }

    fn read<'e>(&mut self, entries: impl Iterator<Item = &'e Entry>) -> Result<()> {
        let (mut ranges, mut total) = (Vec::new(), 0_usize);
        for entry in entries {
            let len = HEADER_LEN + entry.raw_name_len as u64;
            match self.checked(entry.header, len) {
                Ok(range) => ranges.push(range),
                // If this header cannot be read, the error is reported later, when the caller
                // requests the header.
                Err(_) if !ranges.is_empty() => break,
                Err(error) => return Err(error),
            }
            self.ahead.push(total..total + len_of(len)?);
            total += len_of(len)?;
            if total as u64 >= HEADER_BYTES_PER_READ {
                break;
            }
        }
        self.ahead.reverse();
        self.bytes.resize(total, 0);
        self.source.read_ranges(&ranges, &mut self.bytes)
    }

    /// Reads the extra fields of a header.
    fn extra(&self, at: u64, len: u64) -> Result<Vec<u8>> {
        let FileRange { file, offset, .. } = self.checked(at, len)?;
        let mut bytes = vec![0; len_of(len)?];
        self.source.read_at(file, offset, &mut bytes)?;
        Ok(bytes)
    }

    fn checked(&self, offset: u64, len: u64) -> Result<FileRange> {
        if offset.checked_add(len).is_some_and(|end| end <= self.end) {
            return Ok(FileRange { file: self.file, offset, len });
        }
        Err(Error::malformed("a local header reaches past the end of its range")
            .offset(offset)
            .expected(format!("{len} bytes"))
            .found(format!("{} bytes", self.end.saturating_sub(offset))))
    }
}

fn len_of(len: u64) -> Result<usize> {
    usize::try_from(len).map_err(|_| Error::limit("too long for this machine"))
}

fn data_offset<'e>(
    headers: &mut Headers<'_>,
    entry: &Entry,
    directory: &Directory,
    next: impl Iterator<Item = &'e Entry>,
) -> Result<u64> {
    let name_len = entry.raw_name_len as u64;
    let mut fields = Fields(headers.next(next)?);
    if fields.array()? != *HEADER {
        return Err(Error::malformed("the directory does not point to a local header"));
    }
    fields.take(2)?;
    let flags = fields.u16()?;
    let local_method = method(fields.u16()?)?;
    fields.take(4)?;
    let crc = fields.u32()?;
    let stored_len = u64::from(fields.u32()?);
    let len = u64::from(fields.u32()?);
    let local_name_len = u64::from(fields.u16()?);
    let extra_len = u64::from(fields.u16()?);
    let differs =
        |what: &str| Error::malformed(format!("the local header and the directory have different {what}s"));
    if local_name_len != name_len || !directory.is_name_of(entry, fields.0) {
        return Err(differs("name"));
    }
    if local_method != entry.method {
        return Err(differs("compression method"));
    }
    if (flags ^ entry.flags) & !DESCRIPTOR_FOLLOWS != 0 {
        return Err(differs("flag")
            .expected(format!("0x{:04x}", entry.flags))
            .found(format!("0x{flags:04x}")));
    }
    let extra_at = entry.header + HEADER_LEN + name_len;
    let (mut sizes, later) = ([len, stored_len], flags & DESCRIPTOR_FOLLOWS != 0);
    if sizes.contains(&0xffff_ffff) {
        let extra = headers.extra(extra_at, extra_len)?;
        if let Some(mut wide) = zip64(&extra) {
            for size in sizes.iter_mut().filter(|size| **size == 0xffff_ffff) {
                *size = wide.u64()?;
            }
        }
    }
    let agrees = |local: u64, directory: u64| local == directory || (later && local == 0);
    if !agrees(sizes[0], entry.len) || !agrees(sizes[1], entry.stored_len) {
        return Err(differs("length").expected(entry.len).found(sizes[0]));
    }
    if !agrees(crc.into(), entry.crc.into()) {
        return Err(differs("CRC").expected(format!("{:08x}", entry.crc)).found(format!("{crc:08x}")));
    }
    extra_at.checked_add(extra_len).ok_or_else(|| Error::malformed("the length does not fit in 64 bits"))
}
