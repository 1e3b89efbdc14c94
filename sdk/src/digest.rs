//! Digests that formats store or request: checksums of byte ranges, computed in parallel pieces.

use crate::{Error, Result};

/// A checksum's algorithm: an open set of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DigestAlgorithm(pub u32);

impl DigestAlgorithm {
    /// CRC-32 of zip and gzip (reflected polynomial 0xEDB88320); a value is 4 bytes, little-endian.
    pub const CRC32: Self = Self(1);
    /// CRC-32C (reflected polynomial 0x82F63B78), not masked; a value is 4 bytes, little-endian.
    pub const CRC32C: Self = Self(2);

    /// The checksum of no bytes.
    ///
    /// # Errors
    /// Unsupported, if the algorithm is not known here.
    pub fn start(self) -> Result<Checksum> {
        match self {
            Self::CRC32 | Self::CRC32C => Ok(Checksum { algorithm: self, value: 0, len: 0 }),
            _ => Err(Error::unsupported(format!("digest algorithm {}", self.0))),
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CRC32 => "crc32",
            Self::CRC32C => "crc32c",
            _ => "unknown",
        }
    }
}

/// An algorithm and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// How it was computed.
    pub algorithm: DigestAlgorithm,
    /// The value, in the algorithm's encoding.
    pub value: Vec<u8>,
}

impl Digest {
    /// A CRC-32.
    #[must_use]
    pub fn crc32(value: u32) -> Self {
        Self { algorithm: DigestAlgorithm::CRC32, value: value.to_le_bytes().to_vec() }
    }

    /// An unmasked CRC-32C.
    #[must_use]
    pub fn crc32c(value: u32) -> Self {
        Self { algorithm: DigestAlgorithm::CRC32C, value: value.to_le_bytes().to_vec() }
    }
}

/// The checksum of a run of bytes, which joins with that of the next run: so that pieces can be
/// computed in any order, on any thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum {
    algorithm: DigestAlgorithm,
    value: u32,
    len: u64,
}

impl Checksum {
    /// Takes the bytes that follow.
    pub fn update(&mut self, bytes: &[u8]) {
        self.value = if self.algorithm == DigestAlgorithm::CRC32C {
            crc32c::crc32c_append(self.value, bytes)
        } else {
            let mut hasher = crc32fast::Hasher::new_with_initial(self.value);
            hasher.update(bytes);
            hasher.finalize()
        };
        self.len += bytes.len() as u64;
    }

    /// This run followed by `next`, of the same algorithm.
    #[must_use]
    pub fn join(self, next: Self) -> Self {
        debug_assert_eq!(self.algorithm, next.algorithm);
        let value = if self.algorithm == DigestAlgorithm::CRC32C {
            crc32c::crc32c_combine(self.value, next.value, usize::try_from(next.len).unwrap_or(usize::MAX))
        } else {
            let mut hasher = crc32fast::Hasher::new_with_initial_len(self.value, self.len);
            hasher.combine(&crc32fast::Hasher::new_with_initial_len(next.value, next.len));
            hasher.finalize()
        };
        Self { algorithm: self.algorithm, value, len: self.len + next.len }
    }

    /// How many bytes it covers.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it covers none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value, as the algorithm encodes it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest { algorithm: self.algorithm, value: self.value.to_le_bytes().to_vec() }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn pieces_join_to_the_published_check_values() {
        // The check values of the CRC catalogues, over "123456789".
        for (algorithm, check) in
            [(DigestAlgorithm::CRC32, 0xcbf4_3926_u32), (DigestAlgorithm::CRC32C, 0xe306_9283)]
        {
            for cut in 0..=9 {
                let (mut left, mut right) = (algorithm.start().unwrap(), algorithm.start().unwrap());
                left.update(&b"123456789"[..cut]);
                right.update(&b"123456789"[cut..]);
                assert_eq!(left.join(right).digest().value, check.to_le_bytes());
            }
        }
    }
}
