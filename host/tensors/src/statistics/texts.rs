//! Lengths of strings: each is its length as u64, little-endian, then its bytes.

use tensorferry_core::context::windows::size;

/// What strings come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Texts {
    /// How many.
    pub count: u64,
    /// Those without a byte.
    pub empty: u64,
    /// Bytes of the shortest.
    pub shortest: u64,
    /// Bytes of the longest.
    pub longest: u64,
    /// Bytes of all.
    pub total: u64,
}

impl Texts {
    /// The mean of their lengths.
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

/// Takes strings as their bytes come.
#[derive(Default)]
pub(super) struct Lengths {
    pub(super) found: Texts,
    /// Bytes of a length that has not been seen whole.
    length: Vec<u8>,
    /// Bytes of the string that are still to come.
    left: u64,
}

impl Lengths {
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

    /// Whether the last string ended.
    pub(super) fn is_whole(&self) -> bool {
        self.left == 0 && self.length.is_empty()
    }
}
