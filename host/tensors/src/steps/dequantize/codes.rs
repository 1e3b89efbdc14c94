//! Codes are a weight's numbers before scaling. They are stored in contiguous rows of bytes, 4-bit
//! floats, or integers of a few bits.

use super::computed::{look_up, table};
use tensorferry_sdk::Dtype;

/// The values of E2M1, a float dtype of 4 bits. The highest bit is the sign, including for zero.
pub(super) const E2M1: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

/// The packing of codes in a row.
#[derive(Debug, Clone)]
pub(super) enum CodePacking {
    /// One byte per code. The table contains the values of I8 or of an 8-bit float.
    Bytes(&'static [f32; 256]),
    /// Two codes per byte. Each code is an index into a table.
    Nibbles {
        /// The value of each code.
        table: [f32; 16],
        /// Whether the upper half of a byte contains the first of its two codes.
        high_first: bool,
    },
    /// A bit stream, low bits first, with this number of bits per code.
    Bits(u32),
    /// A bit stream as in `Bits`, but in 32-bit words. No code crosses the boundary between two
    /// words.
    InWords(u32),
}

impl CodePacking {
    /// Returns the packing for a one-byte dtype, if its values are numbers.
    pub(super) fn of_bytes(dtype: Dtype) -> Option<Self> {
        table(dtype).map(Self::Bytes)
    }

    /// Returns the number of bits per code.
    pub(super) fn bits(&self) -> u64 {
        match self {
            Self::Bytes(_) => 8,
            Self::Nibbles { .. } => 4,
            Self::Bits(bits) | Self::InWords(bits) => u64::from(*bits),
        }
    }

    /// Returns the position, in bits, of the code in column `column` of a row.
    pub(super) fn start(&self, column: u64) -> u64 {
        match self {
            Self::InWords(_) => {
                let per_word = 32 / self.bits();
                column / per_word * 32 + column % per_word * self.bits()
            }
            _ => column * self.bits(),
        }
    }

    /// Returns the number of bytes that the first `columns` codes of a row occupy.
    pub(super) fn bytes(&self, columns: u64) -> Option<u64> {
        match self {
            Self::InWords(_) => columns.div_ceil(32 / self.bits()).checked_mul(4),
            _ => columns.checked_mul(self.bits()).map(|bits| bits.div_ceil(8)),
        }
    }

    /// Decodes codes to values. The first code begins at bit `first` of `bytes`.
    pub(super) fn fill(&self, bytes: &[u8], first: usize, values: &mut [f32]) {
        match self {
            Self::Bytes(table) => look_up(table, &bytes[first / 8..], values),
            Self::Nibbles { table, high_first } => nibbles(bytes, first / 4, values, |byte| {
                let (low, high) = (table[usize::from(byte & 15)], table[usize::from(byte >> 4)]);
                if *high_first { [high, low] } else { [low, high] }
            }),
            Self::Bits(4) => {
                nibbles(bytes, first / 4, values, |byte| [f32::from(byte & 15), f32::from(byte >> 4)]);
            }
            Self::Bits(8) => {
                for (value, byte) in values.iter_mut().zip(&bytes[first / 8..]) {
                    *value = f32::from(*byte);
                }
            }
            Self::Bits(bits) => stream(bytes, first, *bits, 0, values),
            Self::InWords(bits) => stream(bytes, first, *bits, 32 % bits, values),
        }
    }
}

/// Decodes numbers that are packed in pairs, one pair per byte. Decoding starts with number
/// `first`.
#[inline(always)]
fn nibbles(bytes: &[u8], first: usize, values: &mut [f32], both: impl Fn(u8) -> [f32; 2]) {
    let bytes = &bytes[first / 2..];
    let skipped = (first % 2).min(bytes.len()).min(values.len());
    if skipped == 1 {
        values[0] = both(bytes[0])[1];
    }
    let (bytes, values) = (&bytes[skipped..], &mut values[skipped..]);
    let (pairs, last) = values.as_chunks_mut::<2>();
    for (pair, byte) in pairs.iter_mut().zip(bytes) {
        *pair = both(*byte);
    }
    if let ([value], Some(byte)) = (last, bytes.get(pairs.len())) {
        *value = both(*byte)[0];
    }
}

/// Decodes integers of at most 8 bits. Each integer spans at most two bytes. Each word ends with
/// `unused` unused bits. The first word begins at a byte boundary, at the start of a row. `first`
/// must be less than the number of bits in a word.
fn stream(bytes: &[u8], first: usize, bits: u32, unused: u32, values: &mut [f32]) {
    let mask = (1_u16 << bits) - 1;
    let mut at = first;
    for value in values {
        let pair = [bytes[at / 8], bytes.get(at / 8 + 1).copied().unwrap_or(0)];
        *value = f32::from(u16::from_le_bytes(pair) >> (at % 8) & mask);
        at += bits as usize;
        if unused > 0 && at % 32 == (32 - unused) as usize {
            at += unused as usize;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_begin_anywhere() {
        let bytes = [0x21, 0x43, 0x65, 0x87];
        for (first, count) in [(0, 8), (1, 7), (2, 3), (3, 1), (7, 1)] {
            let expected: Vec<f32> = (0..8_u8).map(|i| f32::from(i + 1)).skip(first).take(count).collect();
            let mut found = vec![0.0; count];
            CodePacking::Bits(4).fill(&bytes, 4 * first, &mut found);
            assert_eq!(found, expected);
            stream(&bytes, 4 * first, 4, 0, &mut found);
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn three_bits_cross_bytes() {
        // The codes 0 to 7. The first code is in the lowest bits.
        let bytes = (0..8_u32).fold(0, |bits, i| bits | i << (3 * i)).to_le_bytes();
        let mut found = [0.0; 6];
        CodePacking::Bits(3).fill(&bytes, 6, &mut found);
        assert_eq!(found, [2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    }

    #[test]
    fn words_may_end_unused() {
        let word =
            |from: u32| (0..10).fold(0_u32, |word, i| word | ((from + i) % 8) << (3 * i)).to_le_bytes();
        let bytes = [word(0), word(10)].concat();
        let codes = CodePacking::InWords(3);
        for first in 0..12 {
            let mut found = vec![0.0; 20 - first];
            let start = codes.start(first as u64);
            let word = usize::try_from(start / 32 * 4).unwrap_or(usize::MAX);
            codes.fill(&bytes[word..], (start % 32) as usize, &mut found);
            let all: [f32; 20] = std::array::from_fn(|i| [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0][i % 8]);
            assert_eq!(found, all[first..]);
        }
        assert_eq!(codes.bytes(20), Some(8));
    }

    #[test]
    fn the_upper_half_may_come_first() {
        let mut found = [0.0; 3];
        CodePacking::Nibbles { table: E2M1, high_first: true }.fill(&[0x12, 0x39], 4, &mut found);
        assert_eq!(found, [1.0, 1.5, -0.5]);
    }
}
