//! A piece is the part of a file that one split covers. It starts and ends between records.

use super::OpenRequest;
use crate::codec::Codec;
use crate::files::InputFile;
use crate::frame::Checks;
use crate::index::{AdjacentIndex, IndexSegment, find_adjacent};
use crate::scan::{Scan, ScannedPart};
use tensorferry_sdk::Result;
use tensorferry_sdk::records::Split;

/// Approximate length in bytes of each piece of an uncompressed file.
pub(super) const TARGET_PIECE_LEN: u64 = 16 << 20;
/// Minimum length of a file that is divided, in bytes.
pub(super) const MIN_DIVIDED_LEN: u64 = 4 * TARGET_PIECE_LEN;

/// A part of a file.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    /// The index of the file.
    pub(crate) file: usize,
    /// The offset of the first record, in decompressed bytes.
    pub(crate) start: u64,
    /// The offset of the record after the piece, or `None` for the end of the file.
    pub(crate) end: Option<u64>,
    /// The number of the first record in the file.
    pub(crate) first: u64,
    /// Number of rows, if the rows have been counted.
    pub(crate) records: Option<u64>,
}

impl Piece {
    pub(super) fn whole(file: usize) -> Self {
        Self { file, start: 0, end: None, first: 0, records: None }
    }

    /// Returns the split that describes the piece to the host.
    pub(super) fn split(&self, files: &[InputFile]) -> Split {
        let file = &files[self.file];
        let bytes = match file.codec {
            Codec::None => self.end.unwrap_or(file.len) - self.start,
            // For a compressed file, only the compressed length is known.
            _ => file.len,
        };
        Split { file: file.name.clone(), offset: self.start, bytes, records: self.records }
    }
}

/// Collects the pieces that a scan finds.
#[derive(Default)]
pub(super) struct PieceBuilder {
    pieces: Vec<Piece>,
}

impl PieceBuilder {
    /// Adds the part of a file that a scan has visited.
    pub(super) fn add<T>(&mut self, walked: &ScannedPart<T>) {
        let rows = walked.records - walked.skipped;
        if let Some(last) = self.pieces.last_mut()
            && last.file == walked.file
            && last.end.is_some_and(|end| end - last.start < TARGET_PIECE_LEN)
        {
            last.end = Some(walked.end);
            last.records = last.records.map(|records| records + rows);
            return;
        }
        self.pieces.push(Piece {
            file: walked.file,
            start: walked.start,
            end: Some(walked.end),
            first: walked.first,
            records: Some(rows),
        });
    }

    pub(super) fn finish(self) -> Vec<Piece> {
        self.pieces
    }
}

/// Returns each file as one piece.
pub(super) fn undivided(files: &[InputFile]) -> Vec<Piece> {
    (0..files.len()).map(Piece::whole).collect()
}

/// Divides files whose records have not been read. The boundaries are found with an index, or by
/// reading the lengths of all records. If the number of files is sufficient to use all threads, the
/// files are not divided.
pub(super) fn divide(request: &OpenRequest<'_>) -> Result<Vec<Piece>> {
    let OpenRequest { files, context, options, source, .. } = request;
    let is_many = files.len() >= 4 * context.threads();
    let mut all = Vec::new();
    for (file, input) in files.iter().enumerate() {
        if input.codec != Codec::None || input.len < MIN_DIVIDED_LEN {
            all.push(Piece::whole(file));
            continue;
        }
        if options.index {
            match find_adjacent(&***source, input.id, TARGET_PIECE_LEN, context.limits())? {
                AdjacentIndex::Missing => {}
                AdjacentIndex::Mismatched(index) => {
                    context.note(&format!("{index:?} does not match {:?} and is ignored", input.name));
                }
                AdjacentIndex::Segments(segments) => {
                    // An index also counts damaged records, which may be skipped. The number of
                    // rows in the index is therefore used only if no records are skipped.
                    let has_all_rows = options.skip.is_none();
                    all.extend(segments.into_iter().map(|segment| of_index(file, segment, has_all_rows)));
                    continue;
                }
            }
        }
        if is_many {
            all.push(Piece::whole(file));
            continue;
        }
        let checks = Checks { data: false, ..request.checks };
        let mut builder = PieceBuilder::default();
        let scan = Scan { only: Some(file), ..request.scan(checks) };
        scan.run(
            || (),
            |walked| {
                builder.add(&walked);
                Ok(())
            },
        )?;
        all.extend(builder.pieces);
    }
    Ok(all)
}

fn of_index(file: usize, segment: IndexSegment, has_all_rows: bool) -> Piece {
    let IndexSegment { start, end, first, records } = segment;
    Piece { file, start, end: Some(end), first, records: Some(records).filter(|_| has_all_rows) }
}
