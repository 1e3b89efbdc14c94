//! A local header stands before an entry's bytes. It must say what the directory says, and the
//! entries must lie apart from each other and before the directory.

use crate::directory::{Directory, Entry, method};
use crate::extent::Extent;
use crate::fields::{Fields, zip64};
use crate::window::{NEAR, Window};
use tensorferry_sdk::{Error, Result, Source};

const HEADER: &[u8; 4] = b"PK\x03\x04";
const HEADER_LEN: u64 = 30;

/// Sizes and CRC follow the bytes, and are zero in the local header.
const DESCRIPTOR_FOLLOWS: u16 = 0x8;

/// For each entry, where its bytes begin.
pub(crate) fn data_offsets(source: &dyn Source, extent: Extent, directory: &Directory) -> Result<Vec<u64>> {
    let entries = directory.entries();
    let mut order: Vec<usize> = (0..entries.len()).collect();
    order.sort_by_key(|&index| entries[index].header);
    let mut offsets = vec![0; entries.len()];
    let mut window = Window::new(source, extent.file, directory.offset);
    let mut free_from = extent.offset;
    for (place, &index) in order.iter().enumerate() {
        let entry = &entries[index];
        let named = |error: Error| error.context(format!("zip entry {:?}", entry.name)).offset(entry.header);
        if entry.header < free_from {
            return Err(named(
                Error::malformed("overlaps the entry before it").expected(format!("at {free_from} or later")),
            ));
        }
        let near =
            order[place..].iter().map(|&i| entries[i].header).take_while(|&at| at - entry.header < NEAR);
        // At most as many as fit the window, and counted only when the window has to move.
        let offset = data_offset(&mut window, entry, directory, || {
            near.last().map(|at| at.saturating_add(HEADER_LEN + 256))
        })
        .map_err(named)?;
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

fn data_offset(
    window: &mut Window<'_>,
    entry: &Entry,
    directory: &Directory,
    ahead: impl FnOnce() -> Option<u64>,
) -> Result<u64> {
    let name_len = entry.raw_name_len as u64;
    let fixed = window.get(entry.header, HEADER_LEN + name_len, ahead)?;
    let mut fields = Fields(fixed);
    if fields.array()? != *HEADER {
        return Err(Error::malformed("no local header where the directory points"));
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
        |what: &str| Error::malformed(format!("the local header has another {what} than the directory"));
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
        let extra = window.get(extra_at, extra_len, || None)?;
        if let Some(mut wide) = zip64(extra) {
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
    extra_at.checked_add(extra_len).ok_or_else(|| Error::malformed("a length that does not fit 64 bits"))
}
