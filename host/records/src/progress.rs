//! The progress of reading rows, measured in bytes of their files. After each batch of a split, the
//! progress grows by the number of bytes that all splits have read from the source since the last
//! batch. A split never adds more bytes than its size.

use super::rows::Rows;
use tensorferry_core::context::session::Session;

/// Adds the sizes of these splits to the session's total. Bytes that were read to open the input do
/// not count as progress.
pub(super) fn begin(rows: &Rows<'_>, splits: impl Iterator<Item = usize>, session: &Session) {
    let _ = rows.source.take_read();
    session.will_read(splits.map(|split| bytes_of(rows, split)).sum());
}

/// The progress of one split.
pub(super) struct SplitProgress<'a> {
    rows: &'a Rows<'a>,
    session: &'a Session,
    /// Number of bytes of the split that have not been counted.
    left: u64,
}

impl<'a> SplitProgress<'a> {
    pub(super) fn new(rows: &'a Rows<'a>, split: usize, session: &'a Session) -> Self {
        Self { rows, session, left: bytes_of(rows, split) }
    }

    /// Counts the bytes that have been read for all splits since the last call.
    pub(super) fn update(&mut self) {
        self.count(self.rows.source.take_read());
    }

    /// Counts the remaining bytes of the split, which are in unused columns or were counted for a
    /// different split.
    pub(super) fn end(mut self) {
        self.count(u64::MAX);
    }

    fn count(&mut self, bytes: u64) {
        let bytes = bytes.min(self.left);
        self.left -= bytes;
        self.session.has_read(bytes);
    }
}

fn bytes_of(rows: &Rows<'_>, split: usize) -> u64 {
    rows.set.splits().get(split).map_or(0, |split| split.bytes)
}
