//! Statistics of the lengths of strings. Each string is stored as its length (a little-endian u64),
//! followed by its bytes.

use tensorferry_core::context::windows::size;

/// Statistics of the lengths of strings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Texts {
    /// Number of strings.
    pub count: u64,
    /// Number of empty strings.
    pub empty: u64,
    /// Length in bytes of the shortest string.
    pub shortest: u64,
    /// Length in bytes of the longest string.
    pub longest: u64,
    /// Total length in bytes of all strings.
    pub total: u64,
}

impl Texts {
    /// Returns the mean length in bytes.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.total as f64 / self.count as f64)
    }

    fn add(&mut self, len: u64) {
        self.shortest = if self.count == 0 { len } else { self.shortest.min(len) };
        self.longest = self.longest.max(len);
        self.empty += u64::from(len == 0);
        self.total = self.total.saturating_add(len);
        self.count += 1;
    }
}

/// Computes the statistics of string lengths from bytes that arrive in pieces.
#[derive(Default)]
pub(super) struct LengthCollector {
    pub(super) found: Texts,
    /// The bytes of a string's length that have arrived so far, if the length is still incomplete.
    length: Vec<u8>,
    /// Number of bytes of the current string that have not arrived yet.
    left: u64,
}

impl LengthCollector {
    pub(super) fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = size(self.left).min(bytes.len());
            self.left -= skipped as u64;
            bytes = &bytes[skipped..];
            let taken = (8 - self.length.len()).min(bytes.len());
            self.length.extend(&bytes[..taken]);
            bytes = &bytes[taken..];
            if let Some(length) = self.length.first_chunk::<8>() {
                self.left = u64::from_le_bytes(*length);
                self.found.add(self.left);
                self.length.clear();
            }
        }
    }

    /// Returns whether the bytes so far end with a complete string.
    pub(super) fn is_whole(&self) -> bool {
        self.left == 0 && self.length.is_empty()
    }
}
