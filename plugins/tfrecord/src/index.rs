//! An index lists the positions of a file's records in order, with one line per record.
//!
//! ```text
//! <offset> <length of the whole frame>\n      in decimal, the length with its 16 bytes of framing
//! ```
//!
//! Sources: `tfrecord2idx` in NVIDIA DALI and in the `tfrecord` package, which write the same
//! format. An index may be outdated or belong to a different file. ferry therefore compares the
//! index with the file before using it. When ferry uses the index to read records, the records must
//! end at the offsets in the index.

use crate::files::INDEX_SUFFIXES;
use crate::frame::{HEADER, OVERHEAD, length};
use crate::scan::{RecordError, Tally};
use tensorferry_sdk::{FileId, Limits, Result, Source};

/// The lines of an index that describe a part of a file.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    pub(crate) text: Vec<u8>,
}

impl Tally for Lines {
    const DATA: bool = false;

    fn record(&mut self, _number: u64, offset: u64, _data: &[u8], whole: u64) -> Result<(), RecordError> {
        let mut digits = itoa::Buffer::new();
        self.text.extend_from_slice(digits.format(offset).as_bytes());
        self.text.push(b' ');
        self.text.extend_from_slice(digits.format(whole).as_bytes());
        self.text.push(b'\n');
        Ok(())
    }
}

/// A part of a file that starts and ends between records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IndexSegment {
    /// The offset of the first record.
    pub(crate) start: u64,
    /// The offset of the record after the segment.
    pub(crate) end: u64,
    /// The number of the first record.
    pub(crate) first: u64,
    pub(crate) records: u64,
}

/// The index next to a file, if it exists.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AdjacentIndex {
    Missing,
    /// The name of an index that is invalid or does not match the file.
    Mismatched(String),
    /// The file, divided into segments of about the requested length.
    Segments(Vec<IndexSegment>),
}

/// Looks for an index next to a file, and uses it to divide the file into segments.
pub(crate) fn find_adjacent(
    source: &dyn Source,
    file: FileId,
    target_len: u64,
    limits: &Limits,
) -> Result<AdjacentIndex> {
    let name = source.name(file).to_owned();
    let names = INDEX_SUFFIXES.iter().map(|suffix| format!("{name}{suffix}"));
    let Some(index) = source.first_of(names)? else {
        return Ok(AdjacentIndex::Missing);
    };
    let id = source.open(&index)?;
    if source.len(id) > limits.header_bytes {
        return Ok(AdjacentIndex::Mismatched(index));
    }
    let text = source.read_vec(id, 0, source.len(id), limits)?;
    let Some(segments) = parse_segments(&text, source.len(file), target_len) else {
        return Ok(AdjacentIndex::Mismatched(index));
    };
    for segment in &segments {
        if !starts_a_record(source, file, segment.start)? {
            return Ok(AdjacentIndex::Mismatched(index));
        }
    }
    Ok(AdjacentIndex::Segments(segments))
}

/// Divides a file of `len` bytes at record boundaries. Returns `None` if the index does not cover
/// the whole file without gaps.
fn parse_segments(text: &[u8], len: u64, target_len: u64) -> Option<Vec<IndexSegment>> {
    let mut segments: Vec<IndexSegment> = Vec::new();
    let mut last = IndexSegment { start: 0, end: 0, first: 0, records: 0 };
    for line in text.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            continue;
        }
        let (offset, whole) = std::str::from_utf8(line).ok()?.split_once(' ')?;
        let (offset, whole): (u64, u64) = (offset.parse().ok()?, whole.trim().parse().ok()?);
        if offset != last.end || whole < OVERHEAD {
            return None;
        }
        if last.end - last.start >= target_len {
            segments.push(last);
            last = IndexSegment { start: offset, first: last.first + last.records, records: 0, ..last };
        }
        last.end = offset.checked_add(whole)?;
        last.records += 1;
    }
    let is_whole = last.end == len;
    segments.push(last);
    is_whole.then_some(segments)
}

/// Returns whether `offset` is the position of a length with a valid checksum.
fn starts_a_record(source: &dyn Source, file: FileId, offset: u64) -> Result<bool> {
    if source.len(file) - offset < HEADER as u64 {
        return Ok(source.len(file) == offset);
    }
    let mut header = [0; HEADER];
    source.read_at(file, offset, &mut header)?;
    Ok(length(&header).is_some())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::frame;
    use std::collections::BTreeMap;
    use tensorferry_sdk::{Entry, MemorySource};

    fn adjacent_with(index: &[u8]) -> AdjacentIndex {
        let mut file = Vec::new();
        for data in [&b"abc"[..], b"", b"defgh"] {
            frame::append(&mut file, data);
        }
        let files = BTreeMap::from([("f".to_owned(), file), ("f.idx".to_owned(), index.to_vec())]);
        let source = MemorySource::new(Entry::File("f".into()), files);
        find_adjacent(&source, source.open("f").unwrap(), 20, &Limits::default()).unwrap()
    }

    #[test]
    fn an_index_that_fits_gives_stretches() {
        let mut lines = Lines::default();
        for (offset, whole) in [(0, 19), (19, 16), (35, 21)] {
            lines.record(0, offset, &[], whole).unwrap();
        }
        assert_eq!(lines.text, b"0 19\n19 16\n35 21\n");
        let expected = vec![
            IndexSegment { start: 0, end: 35, first: 0, records: 2 },
            IndexSegment { start: 35, end: 56, first: 2, records: 1 },
        ];
        assert_eq!(adjacent_with(&lines.text), AdjacentIndex::Segments(expected));
    }

    #[test]
    fn an_index_that_does_not_fit_is_not_used() {
        let mismatched = AdjacentIndex::Mismatched("f.idx".into());
        for index in [
            &b"0 19\n19 16\n"[..],
            b"0 19\n19 16\n35 22\n",
            b"0 19\n20 16\n36 20\n",
            b"0 21\n21 16\n37 19\n",
            b"0 56 \n0 56\n",
            b"0 18446744073709551615\n",
            b"",
            b"PK\x03\x04",
        ] {
            assert_eq!(adjacent_with(index), mismatched, "{:?}", String::from_utf8_lossy(index));
        }
    }
}
