//! Checks delta-encoded pages before the `parquet` crate decodes them. The library allocates memory
//! for the claimed number of values. If values share prefixes, the decoded values can be far longer
//! than the page.
//!
//! ```text
//! varint   values in a block (a multiple of 128)
//! varint   miniblocks in a block
//! varint   values in all
//! zigzag   the first value
//! blocks:  zigzag  the minimum delta
//!          bytes   each miniblock's bit width
//!          bits    the miniblocks: deltas minus the minimum delta, little-endian
//! ```

use tensorferry_sdk::{Error, Result};

/// Checks that a page of DELTA_BINARY_PACKED or DELTA_LENGTH_BYTE_ARRAY claims at most `max`
/// values.
pub(super) fn check_count(values: &[u8], max: u64) -> Result<()> {
    Deltas::new(values, max).map(drop)
}

/// Checks that a page of DELTA_BYTE_ARRAY has at most `max_values` values and `max_bytes` decoded
/// bytes.
pub(super) fn check_prefixed(values: &[u8], max_values: u64, max_bytes: u64) -> Result<()> {
    let mut prefixes = Deltas::new(values, max_values)?;
    let mut sum: u64 = 0;
    while let Some(prefix) = prefixes.next()? {
        let prefix = u64::try_from(prefix).map_err(|_| Error::malformed("a prefix has a negative length"))?;
        sum = sum.saturating_add(prefix);
    }
    let mut suffixes = Deltas::new(prefixes.rest(), max_values)?;
    while let Some(suffix) = suffixes.next()? {
        let suffix = u64::try_from(suffix).map_err(|_| Error::malformed("a suffix has a negative length"))?;
        sum = sum.saturating_add(suffix);
    }
    if sum > max_bytes {
        let max = format!("at most {max_bytes} bytes");
        return Err(Error::limit("a page is too long once its prefixes are expanded")
            .expected(max)
            .found(sum));
    }
    Ok(())
}

/// Decoder of delta-encoded numbers.
struct Deltas<'a> {
    bytes: &'a [u8],
    left: u64,
    last: i64,
    miniblocks: usize,
    miniblock_values: u64,
    /// Bit widths of the remaining miniblocks of the current block. `min` is the minimum delta of
    /// this block.
    widths: &'a [u8],
    min: i64,
    /// The current miniblock.
    packed: &'a [u8],
    width: u32,
    index: u64,
    is_first: bool,
}

impl<'a> Deltas<'a> {
    fn new(mut bytes: &'a [u8], max: u64) -> Result<Self> {
        let block = varint(&mut bytes)?;
        let miniblocks = varint(&mut bytes)?;
        let count = varint(&mut bytes)?;
        let last = zigzag(&mut bytes)?;
        if count > max {
            return Err(Error::malformed("a page claims more delta-encoded values than it has")
                .expected(format!("at most {max}"))
                .found(count));
        }
        let miniblock_values = block.checked_div(miniblocks).unwrap_or(0);
        if block % 128 != 0 || miniblock_values == 0 || miniblock_values % 32 != 0 || block % miniblocks != 0
        {
            return Err(Error::malformed("a delta-encoded page has an invalid block size").found(block));
        }
        let miniblocks = usize::try_from(miniblocks).unwrap_or(usize::MAX);
        Ok(Self {
            bytes,
            left: count,
            last,
            miniblocks,
            miniblock_values,
            widths: &[],
            min: 0,
            packed: &[],
            width: 0,
            index: miniblock_values,
            is_first: true,
        })
    }

    fn next(&mut self) -> Result<Option<i64>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        if std::mem::take(&mut self.is_first) {
            return Ok(Some(self.last));
        }
        if self.index == self.miniblock_values {
            self.next_miniblock()?;
        }
        let delta = bits(self.packed, self.index * u64::from(self.width), self.width);
        self.index += 1;
        self.last = self.last.wrapping_add(self.min).wrapping_add(delta.cast_signed());
        Ok(Some(self.last))
    }

    fn next_miniblock(&mut self) -> Result<()> {
        if self.widths.is_empty() {
            self.min = zigzag(&mut self.bytes)?;
            self.widths = take(&mut self.bytes, self.miniblocks)?;
        }
        let (&width, widths) = self.widths.split_first().ok_or_else(truncated)?;
        if width > 64 {
            return Err(Error::malformed("a delta is longer than 64 bits").found(width));
        }
        (self.width, self.widths, self.index) = (u32::from(width), widths, 0);
        let len = self.miniblock_values.saturating_mul(u64::from(width)) / 8;
        // The last miniblock may be truncated after its last value.
        let needed = (self.left + 1).saturating_mul(u64::from(width)).div_ceil(8).min(len);
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(self.bytes.len());
        if (len as u64) < needed {
            return Err(truncated());
        }
        self.packed = take(&mut self.bytes, len)?;
        Ok(())
    }

    fn rest(&self) -> &'a [u8] {
        self.bytes
    }
}

/// Returns the `width`-bit number that starts at bit `at`.
fn bits(packed: &[u8], at: u64, width: u32) -> u64 {
    let (start, shift) = (usize::try_from(at / 8).unwrap_or(usize::MAX), at % 8);
    let mut window = [0; 16];
    let bytes = packed.get(start..).unwrap_or_default();
    let len = bytes.len().min(16);
    window[..len].copy_from_slice(&bytes[..len]);
    let mask = u128::MAX.checked_shr(128 - width).unwrap_or(0);
    u64::try_from((u128::from_le_bytes(window) >> shift) & mask).unwrap_or(u64::MAX)
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(len).ok_or_else(truncated)?;
    *bytes = rest;
    Ok(taken)
}

fn zigzag(bytes: &mut &[u8]) -> Result<i64> {
    let value = varint(bytes)?;
    Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(Error::malformed("a number in delta-encoded values is too long"))
}

fn truncated() -> Error {
    Error::malformed("delta-encoded values end too early")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;

    fn all(bytes: &[u8]) -> Vec<i64> {
        let mut deltas = Deltas::new(bytes, 1000).unwrap();
        std::iter::from_fn(|| deltas.next().unwrap()).collect()
    }

    /// The examples in Encodings.md: the numbers 1 to 5, and the numbers 7, 5, 3, 1, 2, 3, 4, 5.
    #[test]
    fn the_examples_of_the_description() {
        let counting = [0x80, 1, 4, 5, 2, 2, 0, 0, 0, 0];
        assert_eq!(all(&counting), [1, 2, 3, 4, 5]);
        // The minimum delta is -2. The stored deltas are 0 0 0 3 3 3 3, two bits each.
        let falling = [[0x80, 1, 4, 8, 14, 3, 2, 0, 0, 0, 0xc0, 0x3f].as_slice(), &[0; 6]].concat();
        assert_eq!(all(&falling), [7, 5, 3, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn claims_are_bounded() {
        let kind = |result: Result<()>| result.unwrap_err().kind();
        // The page claims 2^62 values.
        let many = [0x80, 1, 4, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 0];
        assert_eq!(kind(check_count(&many, 1 << 30)), ErrorKind::Malformed);
        assert_eq!(kind(check_count(&[0x80, 1, 0, 4, 0], 10)), ErrorKind::Malformed);
        // Five prefixes and five suffixes of 1 to 5 bytes each. Their total length is 30 bytes.
        let lengths = [0x80, 1, 4, 5, 2, 2, 0, 0, 0, 0];
        let page = [lengths, lengths].concat();
        check_prefixed(&page, 5, 30).unwrap();
        assert_eq!(kind(check_prefixed(&page, 5, 29)), ErrorKind::Limit);
        assert_eq!(kind(check_prefixed(&page, 4, 30)), ErrorKind::Malformed);
        for len in 0..page.len() - 4 {
            assert!(check_prefixed(&page[..len], 5, 30).is_err(), "{len} bytes");
        }
    }
}
