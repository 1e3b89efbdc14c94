//! Reads headers in advance. If headers are close together, one read covers several of them. With
//! thousands of headers, a separate read for each would dominate the time.

use tensorferry_sdk::{Error, FileId, Result, Source};

/// Maximum distance in bytes between headers that are read together.
pub(crate) const NEAR: u64 = 64 << 10;

/// A buffer with the part of a file that was read last.
pub(crate) struct Window<'a> {
    source: &'a dyn Source,
    file: FileId,
    /// End of the range from which the window may read.
    end: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<'a> Window<'a> {
    /// Creates a window that never reads past `end`.
    pub(crate) fn new(source: &'a dyn Source, file: FileId, end: u64) -> Self {
        Self { source, file, end, start: 0, bytes: Vec::new() }
    }

    /// Returns `len` bytes at `at`. If the window does not contain these bytes, it is filled again.
    /// The refilled window starts at `at`, and ends after these bytes or at `ahead`, whichever is
    /// later.
    pub(crate) fn get(&mut self, at: u64, len: u64, ahead: impl FnOnce() -> Option<u64>) -> Result<&[u8]> {
        let end = at.checked_add(len).filter(|&end| end <= self.end);
        let end = end.ok_or_else(|| {
            Error::malformed("a header reaches past the end of the file")
                .offset(at)
                .expected(format!("{len} bytes"))
                .found(format!("{} bytes", self.end.saturating_sub(at)))
        })?;
        if at < self.start || end > self.start + self.bytes.len() as u64 {
            let ahead = ahead().map_or(end, |ahead| ahead.clamp(end, self.end.max(end)));
            let len = usize::try_from(ahead - at).map_err(|_| Error::limit("too long for this machine"))?;
            self.bytes.resize(len, 0);
            self.source.read_at(self.file, at, &mut self.bytes)?;
            self.start = at;
        }
        let from = usize::try_from(at - self.start).unwrap_or(usize::MAX);
        let to = usize::try_from(end - self.start).unwrap_or(usize::MAX);
        self.bytes.get(from..to).ok_or_else(|| Error::malformed("a header is truncated").offset(at))
    }
}
