//! Levels of values in columns without nulls or empty lists. The definition level of every value is
//! the maximum. The repetition level of a value shows whether the value starts a row.
//!
//! ```text
//! u32 LE   the length of what follows
//! ...      runs: a varint, then a level (count << 1), or bits, the lowest first (groups of 8 << 1 | 1)
//! ```
//!
//! Source: <https://parquet.apache.org/docs/file-format/data-pages/encodings/#RLE>.

use super::Segment;

/// Appends a run of `count` equal levels.
pub(super) fn put_run(page: &mut Vec<u8>, level: i16, count: usize) {
    let begin = begin(page);
    put_varint(page, (count as u64) << 1);
    // A level does not exceed the nesting depth of the column, which is less than 128 here.
    page.push(level.to_le_bytes()[0]);
    end(page, begin);
}

/// Appends repetition levels. The level is 0 for a value that starts a row, and 1 for a value that
/// continues a list.
pub(super) fn put_starts(page: &mut Vec<u8>, segments: &[Segment<'_>], count: usize) {
    let begin = begin(page);
    let groups = count.div_ceil(8);
    put_varint(page, (groups as u64) << 1 | 1);
    let bits = page.len();
    page.resize(bits + groups, 0xff);
    let mut place = 0;
    for segment in segments {
        let first = segment.values().start;
        for row in segment.rows.clone() {
            let start = place + segment.leaf.start(row) - first;
            page[bits + start / 8] &= !(1 << (start % 8));
        }
        place += segment.values().len();
    }
    end(page, begin);
}

fn begin(page: &mut Vec<u8>) -> usize {
    page.extend([0; 4]);
    page.len()
}

fn end(page: &mut [u8], begin: usize) {
    let len = u32::try_from(page.len() - begin).unwrap_or(u32::MAX);
    page[begin - 4..begin].copy_from_slice(&len.to_le_bytes());
}

/// Appends a varint with seven bits per byte, starting with the lowest bits.
pub(super) fn put_varint(output: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        output.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    output.push(value.to_le_bytes()[0]);
}
