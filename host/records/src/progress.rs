//! How far the reading of rows is, in bytes of the files that they lie in: what the source was asked for since the last
//! batch, whichever split asked, and never more of a split than it has.

use super::rows::Rows;
use tensorferry_core::context::session::Session;

/// Announces that these splits will be read. What was read to open the input does not count.
pub(super) fn begin(rows: &Rows<'_>, splits: impl Iterator<Item = usize>, session: &Session) {
    let _ = rows.source.take_read();
    session.will_read(splits.map(|split| bytes_of(rows, split)).sum());
}

/// How far one split is.
pub(super) struct SplitProgress<'a> {
    rows: &'a Rows<'a>,
    session: &'a Session,
    /// Bytes of the split that have not been counted.
    left: u64,
}

impl<'a> SplitProgress<'a> {
    pub(super) fn new(rows: &'a Rows<'a>, split: usize, session: &'a Session) -> Self {
        Self { rows, session, left: bytes_of(rows, split) }
    }

    /// Counts what was read since somebody last counted.
    pub(super) fn update(&mut self) {
        self.count(self.rows.source.take_read());
    }

    /// Counts the rest: columns that nobody needs, and what splits read of each other, are not read.
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
