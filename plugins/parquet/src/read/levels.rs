//! The levels of a page, which tell whether values are null and where lists begin, and numbers in the
//! encoding of levels and of indices.

use bytes::Bytes;
use parquet::basic::Encoding;
use parquet::column::page::Page;
use parquet::schema::types::ColumnDescriptor;
use tensorferry_sdk::{Error, Result};

/// Returns the definition levels of a page in RLE encoding, and the bytes after all levels.
pub(super) fn split_levels(page: &Page, column: &ColumnDescriptor) -> Result<(Bytes, Bytes)> {
    let cut = || Error::malformed("a page ends inside its levels");
    match page {
        Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, .. } => {
            let (_, rest) = split(buf, u64::from(*rep_levels_byte_len)).ok_or_else(cut)?;
            split(&rest, u64::from(*def_levels_byte_len)).ok_or_else(cut)
        }
        Page::DataPage { buf, num_values, def_level_encoding, rep_level_encoding, .. } => {
            let (mut levels, mut rest) = (Bytes::new(), buf.clone());
            for (max, encoding) in
                [(column.max_rep_level(), rep_level_encoding), (column.max_def_level(), def_level_encoding)]
            {
                if max == 0 {
                    continue;
                }
                let len = if *encoding == Encoding::RLE {
                    let len = u32::from_le_bytes(*rest.first_chunk().ok_or_else(cut)?);
                    rest = rest.slice(4..);
                    u64::from(len)
                } else {
                    // BIT_PACKED is an encoding that the first writers used. It contains the bits of
                    // levels without padding.
                    let width = u64::from(16 - max.leading_zeros());
                    (u64::from(*num_values) * width).div_ceil(8)
                };
                (levels, rest) = split(&rest, len).ok_or_else(cut)?;
            }
            Ok((levels, rest))
        }
        Page::DictionaryPage { buf, .. } => Ok((Bytes::new(), buf.clone())),
    }
}

fn split(bytes: &Bytes, at: u64) -> Option<(Bytes, Bytes)> {
    let at = usize::try_from(at).ok().filter(|&at| at <= bytes.len())?;
    Some((bytes.slice(..at), bytes.slice(at..)))
}

/// Definition levels or indices, in runs of equal numbers and in groups of eight packed numbers.
pub(super) struct Numbers {
    bytes: Vec<u8>,
    at: usize,
    /// Number of bits of a number.
    width: usize,
    run: Run,
}

enum Run {
    /// This many equal numbers.
    Equal(u64, u32),
    /// This many packed numbers, and the bit at which the next one starts.
    Packed(u64, usize),
}

impl Numbers {
    /// Reads definition levels.
    pub(super) fn levels(bytes: Vec<u8>, max_level: i16) -> Self {
        let width = (16 - max_level.leading_zeros()) as usize;
        Self { bytes, at: 0, width, run: Run::Equal(0, 0) }
    }

    /// Reads indices, which start with the number of their bits.
    pub(super) fn indices(bytes: Vec<u8>) -> Self {
        let width = bytes.first().map_or(0, |width| usize::from(*width).min(32));
        Self { bytes, at: 1, width, run: Run::Equal(0, 0) }
    }

    /// Returns the next number, or `None` if the bytes end.
    pub(super) fn next(&mut self) -> Option<u32> {
        loop {
            match &mut self.run {
                Run::Equal(left @ 1.., number) => {
                    *left -= 1;
                    return Some(*number);
                }
                Run::Packed(left @ 1.., bit) => {
                    *left -= 1;
                    let bits = *bit..*bit + self.width;
                    *bit = bits.end;
                    let bytes = &self.bytes;
                    let is_set = |bit: usize| Some(bytes.get(bit / 8)? >> (bit % 8) & 1 > 0);
                    return bits
                        .enumerate()
                        .try_fold(0, |number, (place, bit)| Some(number | u32::from(is_set(bit)?) << place));
                }
                _ => self.start_run()?,
            }
        }
    }

    fn start_run(&mut self) -> Option<()> {
        let (mut header, mut shift) = (0_u64, 0);
        loop {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            header |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        if header & 1 == 0 {
            let len = self.width.div_ceil(8);
            let value = self.bytes.get(self.at..self.at + len)?;
            let number = value.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
            self.at += len;
            self.run = Run::Equal(header >> 1, number);
        } else {
            self.run = Run::Packed((header >> 1).checked_mul(8)?, self.at * 8);
            let len = usize::try_from(header >> 1).ok()?.checked_mul(self.width)?;
            self.at = self.at.checked_add(len)?;
        }
        Some(())
    }
}

/// Encodes levels of at most eight bits as runs. Each run has a level and a count.
pub(super) fn encode(runs: &[(u32, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (level, count) in runs {
        let mut header = u64::from(*count) << 1;
        while header >= 0x80 {
            bytes.push(u8::try_from(header & 0x7f).unwrap_or(0) | 0x80);
            header >>= 7;
        }
        bytes.push(u8::try_from(header).unwrap_or(0));
        bytes.push(u8::try_from(*level).unwrap_or(0));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_runs_or_packed() {
        // Three equal levels, eight packed levels of one bit, and five equal levels.
        let mut levels = Numbers::levels(vec![6, 1, 3, 0b0101_0011, 10, 0], 1);
        let found: Vec<_> = std::iter::from_fn(|| levels.next()).collect();
        assert_eq!(found, [1, 1, 1, 1, 1, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]);
        let mut packed = Numbers::levels(vec![3, 0b1101_0001, 0b1000_0001], 3);
        assert_eq!(std::iter::from_fn(|| packed.next()).collect::<Vec<_>>(), [1, 0, 1, 3, 1, 0, 0, 2]);
        assert_eq!(encode(&[(1, 3), (0, 200)]), [6, 1, 0x90, 3, 0]);
    }
}
