//! Divides a sample into the values of its columns.

use crate::index::Column;
use std::ops::Range;
use tensorferry_sdk::{Error, Result};

/// Sets `ranges` to the byte range of each column's value in a sample.
pub(super) fn split(sample: &[u8], columns: &[Column], ranges: &mut Vec<Range<usize>>) -> Result<()> {
    ranges.clear();
    let misfit = |wanted: u64| {
        Error::malformed("the length of a sample does not match its values")
            .expected(format!("{wanted} bytes"))
            .found(sample.len())
    };
    let declared = columns.iter().filter(|column| column.encoding.size().is_none()).count();
    let mut place = 4 * declared;
    let mut sizes = sample.get(..place).ok_or_else(|| misfit(place as u64))?.chunks_exact(4);
    for column in columns {
        let size = match column.encoding.size() {
            Some(size) => size,
            None => {
                let bytes = sizes.next().and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
                u32::from_le_bytes(bytes).into()
            }
        };
        let end = usize::try_from(size).ok().and_then(|size| place.checked_add(size));
        let end = end.filter(|end| *end <= sample.len());
        let end = end.ok_or_else(|| misfit(size.saturating_add(place as u64)).column(&column.name))?;
        ranges.push(place..end);
        place = end;
    }
    if place == sample.len() { Ok(()) } else { Err(misfit(place as u64)) }
}
