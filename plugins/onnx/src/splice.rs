//! Replaces the content of some messages in a file. All other bytes are copied, except for the
//! lengths of enclosing messages. No schema is needed, because only fields that contain a replaced
//! range are parsed.
//!
//! Messages are not decoded and encoded again, because this would drop unknown fields.

use std::ops::Range;
use tensorferry_proto::wire::put_varint;
use tensorferry_proto_file::{Value, Wire};
use tensorferry_sdk::{FileId, Result, TensorId};

/// A part of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// A range of one of the `-o like=` model's files. The range is copied unchanged.
    Kept(FileId, Range<u64>),
    Bytes(Vec<u8>),
    /// The elements of a tensor, with their length in bytes.
    Tensor(TensorId, u64),
}

/// Consecutive parts of the output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pieces {
    pub(crate) pieces: Vec<Piece>,
    /// Total number of bytes.
    pub(crate) len: u64,
}

impl Pieces {
    /// Appends a piece. If it continues the last piece, the two pieces are merged.
    pub(crate) fn push(&mut self, piece: Piece) {
        self.len += match &piece {
            Piece::Kept(_, range) => range.end - range.start,
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::Tensor(_, len) => *len,
        };
        match (self.pieces.last_mut(), piece) {
            (_, Piece::Kept(_, range)) if range.is_empty() => {}
            (Some(Piece::Kept(last_file, last)), Piece::Kept(file, range))
                if *last_file == file && last.end == range.start =>
            {
                last.end = range.end;
            }
            (Some(Piece::Bytes(last)), Piece::Bytes(bytes)) => last.extend(bytes),
            (_, piece) => self.pieces.push(piece),
        }
    }

    pub(crate) fn append(&mut self, others: Self) {
        others.pieces.into_iter().for_each(|piece| self.push(piece));
    }

    /// Appends a field's tag and the length of its content.
    pub(crate) fn push_head(&mut self, number: u32, len: u64) {
        let mut head = Vec::new();
        put_varint(&mut head, u64::from(number << 3 | 2));
        put_varint(&mut head, len);
        self.push(Piece::Bytes(head));
    }
}

/// New content for a message.
#[derive(Debug, Clone)]
pub(crate) struct Edit {
    /// Range of the message's original content.
    pub(crate) place: Range<u64>,
    pub(crate) content: Pieces,
}

/// Applies edits to the message in `range` of `file` and returns the result. The edits must be
/// inside the range, disjoint and in order.
pub(crate) fn splice(
    wire: &mut Wire<'_>,
    file: FileId,
    range: &Range<u64>,
    edits: &[Edit],
) -> Result<Pieces> {
    let mut spliced = Pieces::default();
    let mut rest = range.clone();
    let mut edits = edits;
    while !edits.is_empty() {
        let Some(field) = wire.next(&mut rest)? else { break };
        let Value::Bytes(content) = field.value else {
            spliced.push(Piece::Kept(file, field.at..rest.start));
            continue;
        };
        let inside = edits.partition_point(|edit| edit.place.start < content.end);
        let (here, later) = edits.split_at(inside);
        edits = later;
        let replaced = match here {
            [] => {
                spliced.push(Piece::Kept(file, field.at..content.end));
                continue;
            }
            [edit] if edit.place == content => edit.content.clone(),
            several => splice(wire, file, &content, several)?,
        };
        // If the length is unchanged, the original bytes of the tag and the length are kept.
        if replaced.len == content.end - content.start {
            spliced.push(Piece::Kept(file, field.at..content.start));
        } else {
            spliced.push_head(field.number, replaced.len);
        }
        spliced.append(replaced);
    }
    spliced.push(Piece::Kept(file, rest));
    Ok(spliced)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::{MemorySource, Source};

    /// A model built by hand, with the fields 1: 5, 2 { 1 { "ab" }, 3: 7, 1 { "cd" } }, 9 { "x" }.
    const BYTES: [u8; 17] =
        [0x08, 5, 0x12, 10, 0x0a, 2, b'a', b'b', 0x18, 7, 0x0a, 2, b'c', b'd', 0x4a, 1, b'x'];

    fn spliced(edits: &[(Range<u64>, &[u8])]) -> Vec<u8> {
        let source = MemorySource::file("m", BYTES);
        let file = source.open("m").unwrap();
        let edits: Vec<Edit> = edits
            .iter()
            .map(|(place, bytes)| {
                let mut content = Pieces::default();
                content.push(Piece::Bytes(bytes.to_vec()));
                Edit { place: place.clone(), content }
            })
            .collect();
        let mut wire = Wire::of_file(&source, file);
        let pieces = splice(&mut wire, file, &(0..17), &edits).unwrap();
        let bytes: Vec<u8> = pieces
            .pieces
            .iter()
            .flat_map(|piece| match piece {
                Piece::Kept(_, range) => {
                    BYTES[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()].to_vec()
                }
                Piece::Bytes(bytes) => bytes.clone(),
                Piece::Tensor(..) => Vec::new(),
            })
            .collect();
        assert_eq!(bytes.len() as u64, pieces.len);
        bytes
    }

    #[test]
    fn lengths_follow_and_all_else_stays() {
        assert_eq!(spliced(&[]), BYTES);
        assert_eq!(spliced(&[(6..8, b"AB")])[6..8], *b"AB");
        let longer = spliced(&[(6..8, b""), (12..14, b"cdef"), (16..17, b"yz")]);
        let expected =
            [0x08, 5, 0x12, 10, 0x0a, 0, 0x18, 7, 0x0a, 4, b'c', b'd', b'e', b'f', 0x4a, 2, b'y', b'z'];
        assert_eq!(longer, expected);
    }
}
