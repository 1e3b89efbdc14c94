//! Iterates over the records of a file.

use super::{FOOTER, Fault, FaultKind, HEADER, OVERHEAD, length, masked};
use crate::bytes::Window;
use tensorferry_proto::masked_crc::mask;
use tensorferry_sdk::crc32c_append;

/// The checks to perform during a walk. The checksums of lengths are always verified, because
/// frames cannot be found without valid lengths.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checks {
    /// Whether to verify the checksums of the data.
    pub(crate) data: bool,
    /// Maximum length in bytes of a record in memory.
    pub(crate) max: u64,
}

/// An iterator over the records, positioned between two records.
pub(crate) struct Frames<W> {
    window: W,
    checks: Checks,
    offset: u64,
}

impl<W: Window> Frames<W> {
    /// Creates a walk that starts at the record at `offset`.
    pub(crate) fn new(window: W, offset: u64, checks: Checks) -> Self {
        Self { window, checks, offset }
    }

    /// Returns the offset of the next record.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Moves the walk to the record at `offset`.
    pub(crate) fn go_to(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// Returns the data of the next record, or `None` at the end. After a fault, the position is
    /// unchanged.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, Fault> {
        let offset = self.offset;
        let Some(len) = self.header()? else { return Ok(None) };
        if len > self.checks.max {
            return Err(Fault { offset, kind: FaultKind::TooLong { length: len, max: self.checks.max } });
        }
        // `len` does not exceed `checks.max`, or is less than the length of a window in memory.
        let data = usize::try_from(len).unwrap_or(usize::MAX - HEADER - FOOTER);
        let whole = HEADER + data + FOOTER;
        let bytes = match self.window.at(offset, whole) {
            Ok(bytes) => bytes,
            Err(error) => return Err(Fault { offset, kind: FaultKind::Stream(error) }),
        };
        let Some(bytes) = bytes.get(HEADER..whole) else {
            return Err(Fault {
                offset,
                kind: FaultKind::Truncated { length: len, available: bytes.len() as u64 },
            });
        };
        let (data, stored) = bytes.split_at(data);
        let next = offset + whole as u64;
        if self.checks.data && masked(data).to_le_bytes() != stored {
            return Err(Fault { offset, kind: FaultKind::Data { next } });
        }
        self.offset = next;
        Ok(Some(data))
    }

    /// Skips the next record, regardless of its length. Returns the offset of the skipped record,
    /// or `None` at the end.
    #[inline]
    pub(crate) fn skip(&mut self) -> Result<Option<u64>, Fault> {
        let offset = self.offset;
        let Some(len) = self.header()? else { return Ok(None) };
        let cut = |available| Fault { offset, kind: FaultKind::Truncated { length: len, available } };
        let stream = |error| Fault { offset, kind: FaultKind::Stream(error) };
        let next =
            len.checked_add(OVERHEAD).and_then(|whole| offset.checked_add(whole)).ok_or_else(|| cut(0))?;
        let end = next - FOOTER as u64;
        let mut place = offset + HEADER as u64;
        if self.checks.data || self.window.len().is_none() {
            let mut crc = 0;
            while place < end {
                let bytes = self.window.at(place, 1).map_err(stream)?;
                let part = usize::try_from(end - place).map_or(bytes.len(), |left| left.min(bytes.len()));
                if part == 0 {
                    return Err(cut(place - offset));
                }
                if self.checks.data {
                    crc = crc32c_append(crc, &bytes[..part]);
                }
                place += part as u64;
            }
            let stored = self.window.at(end, FOOTER).map_err(stream)?;
            let Some(stored) = stored.first_chunk::<FOOTER>() else {
                return Err(cut(end - offset + stored.len() as u64));
            };
            if self.checks.data && mask(crc).to_le_bytes() != *stored {
                return Err(Fault { offset, kind: FaultKind::Data { next } });
            }
        }
        self.offset = next;
        Ok(Some(offset))
    }

    /// Returns the data length of the next record, if the file can contain that many bytes.
    #[inline]
    fn header(&mut self) -> Result<Option<u64>, Fault> {
        let offset = self.offset;
        let fault = |kind| Fault { offset, kind };
        let header = self.window.at(offset, HEADER).map_err(|error| fault(FaultKind::Stream(error)))?;
        if header.is_empty() {
            return Ok(None);
        }
        if header.len() < HEADER {
            return Err(fault(FaultKind::TruncatedHeader { bytes: header.len() as u64 }));
        }
        let len = length(header).ok_or_else(|| fault(FaultKind::Length))?;
        if let Some(end) = self.window.len() {
            let available = end.saturating_sub(offset);
            if len > available || len + OVERHEAD > available {
                return Err(fault(FaultKind::Truncated { length: len, available }));
            }
        }
        Ok(Some(len))
    }
}
