//! Digests that formats store or request. A digest is the checksum of a byte range. The range can
//! be divided into pieces whose checksums are computed in parallel.

use crate::{Error, Result};
use crc_fast::CrcAlgorithm;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The algorithm of a checksum: an open set of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DigestAlgorithm(pub u32);

impl DigestAlgorithm {
    /// The CRC-32 of zip and gzip (reflected polynomial 0xEDB88320). The value is stored as 4
    /// little-endian bytes.
    pub const CRC32: Self = Self(1);
    /// CRC-32C (reflected polynomial 0x82F63B78), not masked. The value is stored as 4
    /// little-endian bytes.
    pub const CRC32C: Self = Self(2);

    /// Returns the checksum of an empty run of bytes.
    ///
    /// # Errors
    /// Returns an unsupported error if the algorithm is not known.
    pub fn start(self) -> Result<Checksum> {
        match self {
            Self::CRC32 | Self::CRC32C => Ok(Checksum { algorithm: self, value: 0, len: 0 }),
            _ => Err(Error::unsupported(format!("digest algorithm {}", self.0))),
        }
    }

    /// Returns the name of the algorithm.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CRC32 => "crc32",
            Self::CRC32C => "crc32c",
            _ => "unknown",
        }
    }
}

/// The value of a checksum, and the algorithm that computed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digest {
    /// Algorithm that computed the value.
    pub algorithm: DigestAlgorithm,
    /// Value, encoded as the algorithm requires.
    pub value: DigestValue,
}

/// The bytes of a digest's value. A 32-bit checksum is stored without an allocation, because a
/// catalog may contain millions of checksums, one per chunk.
#[derive(Clone, PartialEq, Eq)]
pub struct DigestValue(ValueBytes);

#[derive(Clone, PartialEq, Eq)]
enum ValueBytes {
    Four([u8; 4]),
    Other(Arc<Vec<u8>>),
}

impl Deref for DigestValue {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            ValueBytes::Four(bytes) => bytes,
            ValueBytes::Other(bytes) => bytes,
        }
    }
}

impl From<[u8; 4]> for DigestValue {
    fn from(bytes: [u8; 4]) -> Self {
        Self(ValueBytes::Four(bytes))
    }
}

impl From<&[u8]> for DigestValue {
    fn from(bytes: &[u8]) -> Self {
        let other = |_| ValueBytes::Other(Arc::new(bytes.to_vec()));
        Self(bytes.try_into().map_or_else(other, ValueBytes::Four))
    }
}

impl fmt::Debug for DigestValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl Digest {
    /// Creates a CRC-32 digest.
    #[must_use]
    pub fn crc32(value: u32) -> Self {
        Self { algorithm: DigestAlgorithm::CRC32, value: value.to_le_bytes().into() }
    }

    /// Creates an unmasked CRC-32C digest.
    #[must_use]
    pub fn crc32c(value: u32) -> Self {
        Self { algorithm: DigestAlgorithm::CRC32C, value: value.to_le_bytes().into() }
    }
}

/// The checksum of a run of bytes. The checksums of consecutive runs can be joined. Pieces can
/// therefore be processed in any order, on any thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum {
    algorithm: DigestAlgorithm,
    value: u32,
    len: u64,
}

impl Checksum {
    /// Appends bytes to the run.
    pub fn update(&mut self, bytes: &[u8]) {
        let algorithm = match self.algorithm {
            DigestAlgorithm::CRC32C => CrcAlgorithm::Crc32Iscsi,
            _ => CrcAlgorithm::Crc32IsoHdlc,
        };
        self.value = append(algorithm, self.value, bytes);
        self.len += bytes.len() as u64;
    }

    /// Returns the checksum of this run followed by `next`, which must have the same algorithm.
    #[must_use]
    pub fn join(self, next: Self) -> Self {
        debug_assert_eq!(self.algorithm, next.algorithm);
        let joiner = if self.algorithm == DigestAlgorithm::CRC32C { &CRC32C } else { &CRC32 };
        let value = joiner.join(self.value, next.value, next.len);
        Self { algorithm: self.algorithm, value, len: self.len + next.len }
    }

    /// Returns the number of bytes in the run.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the run is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the digest of the run.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest { algorithm: self.algorithm, value: self.value.to_le_bytes().into() }
    }
}

/// Returns the unmasked CRC-32C of `bytes`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// Extends a checksum: given the unmasked CRC-32C `crc` of earlier bytes, returns the unmasked
/// CRC-32C of those bytes followed by `bytes`.
#[must_use]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    append(CrcAlgorithm::Crc32Iscsi, crc, bytes)
}

fn append(algorithm: CrcAlgorithm, crc: u32, bytes: &[u8]) -> u32 {
    // The register of the CRC computation contains the complement of the value.
    let mut digest = crc_fast::Digest::new_with_init_state(algorithm, u64::from(!crc));
    digest.update(bytes);
    // For a 32-bit checksum, the upper half of the result is zero.
    u32::try_from(digest.finalize()).unwrap_or(u32::MAX)
}

const CRC32: CrcCombiner = CrcCombiner::of(0xedb8_8320);
const CRC32C: CrcCombiner = CrcCombiner::of(0x82f6_3b78);

/// Joins the checksums of two consecutive runs. The checksum of a run is a polynomial over GF(2).
/// Appending n zero bytes to the run multiplies this polynomial by x^(8n), modulo the polynomial of
/// the CRC. The required powers of x are precomputed, so joining takes less than a microsecond.
///
/// Source: `crc32_combine` in zlib 1.2.12, by Mark Adler.
struct CrcCombiner {
    /// The polynomial of the CRC with its bits reversed. The highest bit is the coefficient of the
    /// lowest power.
    polynomial: u32,
    /// The power x^(8 * 2^k) for each bit k of a length.
    powers: [u32; 64],
}

impl CrcCombiner {
    const fn of(polynomial: u32) -> Self {
        let mut powers = [0; 64];
        // The initial value is x^8.
        let mut power = 1 << (31 - 8);
        let mut bit = 0;
        while bit < powers.len() {
            powers[bit] = power;
            power = product(power, power, polynomial);
            bit += 1;
        }
        Self { polynomial, powers }
    }

    fn join(&self, first: u32, next: u32, next_len: u64) -> u32 {
        let mut value = first;
        let mut rest = next_len;
        while rest != 0 {
            value = product(self.powers[rest.trailing_zeros() as usize], value, self.polynomial);
            rest &= rest - 1;
        }
        value ^ next
    }
}

/// Returns the product of two polynomials modulo a third polynomial. All polynomials have their
/// bits reversed.
const fn product(a: u32, mut b: u32, polynomial: u32) -> u32 {
    let (mut sum, mut bit) = (0, 1 << 31);
    while bit != 0 {
        if a & bit != 0 {
            sum ^= b;
        }
        b = (b >> 1) ^ if b & 1 == 1 { polynomial } else { 0 };
        bit >>= 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn pieces_join_to_the_published_check_values() {
        // Compare with the published check values, which are computed over "123456789".
        for (algorithm, check) in
            [(DigestAlgorithm::CRC32, 0xcbf4_3926_u32), (DigestAlgorithm::CRC32C, 0xe306_9283)]
        {
            for cut in 0..=9 {
                let (mut left, mut right) = (algorithm.start().unwrap(), algorithm.start().unwrap());
                left.update(&b"123456789"[..cut]);
                right.update(&b"123456789"[cut..]);
                assert_eq!(*left.join(right).digest().value, check.to_le_bytes());
            }
        }
    }

    #[test]
    fn runs_of_any_length_join_as_other_implementations_have_it() {
        let bytes: Vec<u8> =
            (0..70_000_u32).map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
        for cut in [0, 1, 63, 64, 255, 4096, 65_536, 69_999, 70_000] {
            let (left, right) = bytes.split_at(cut);
            for (algorithm, expected) in [
                (DigestAlgorithm::CRC32, crc32fast::hash(&bytes)),
                (DigestAlgorithm::CRC32C, crc32c::crc32c(&bytes)),
            ] {
                let (mut first, mut next) = (algorithm.start().unwrap(), algorithm.start().unwrap());
                first.update(left);
                next.update(right);
                assert_eq!(*first.join(next).digest().value, expected.to_le_bytes(), "{cut}");
                first.update(right);
                assert_eq!(*first.digest().value, expected.to_le_bytes(), "{cut}");
            }
        }
        // These lengths are too large for computing the checksum directly.
        for len in [1 << 40, (1 << 45) + 12_345] {
            let expected = crc32c::crc32c_combine(7, 9, usize::try_from(len).unwrap());
            assert_eq!(CRC32C.join(7, 9, len), expected);
        }
    }
}
