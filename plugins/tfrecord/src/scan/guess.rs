//! Guesses the offset of the first record in a unit.

use crate::bytes::WINDOW;
use crate::frame::{HEADER, OVERHEAD, length};
use tensorferry_sdk::{FileId, Result, Source};

/// Maximum number of bytes to search. If a record is longer, the exact walk handles the unit.
const MAX_GUESSES: u64 = 512 << 10;

/// Number of bytes in the first read. It is small, because most records are short.
const FIRST: usize = 16 << 10;

/// Returns the first offset between `start` and `end` that contains a length with a valid checksum.
/// After the record at this offset, there must be another such length or the end of the file.
pub(crate) fn first_record(source: &dyn Source, file: FileId, start: u64, end: u64) -> Result<Option<u64>> {
    let len = source.len(file);
    let end = end.min(start + MAX_GUESSES).min(len);
    let mut buffer = vec![0; FIRST];
    let mut place = start;
    while place < end {
        let part = usize::try_from(len - place).map_or(buffer.len(), |left| left.min(buffer.len()));
        source.read_at(file, place, &mut buffer[..part])?;
        for (index, header) in buffer[..part].windows(HEADER).enumerate() {
            let offset = place + index as u64;
            if let Some(next) = next_of(header, offset, len)
                && is_record_boundary(source, file, next, len)?
            {
                return Ok((offset < end).then_some(offset));
            }
        }
        if part < buffer.len() {
            break;
        }
        place += (part - HEADER + 1) as u64;
        buffer.resize(WINDOW, 0);
    }
    Ok(None)
}

/// Returns the offset of the record after this header, if the header is valid and the record fits
/// in the file.
#[inline]
fn next_of(header: &[u8], offset: u64, len: u64) -> Option<u64> {
    let claimed = u64::from_le_bytes(*header.first_chunk()?);
    let next = offset.checked_add(claimed)?.checked_add(OVERHEAD)?;
    // Bytes that are not a length nearly always represent a number that is too large. In most
    // cases, this check therefore avoids computing the checksum.
    if next > len { None } else { length(header).map(|_| next) }
}

fn is_record_boundary(source: &dyn Source, file: FileId, next: u64, len: u64) -> Result<bool> {
    if next == len {
        return Ok(true);
    }
    let mut header = [0; HEADER];
    if len - next < HEADER as u64 {
        return Ok(false);
    }
    source.read_at(file, next, &mut header)?;
    Ok(length(&header).is_some())
}
