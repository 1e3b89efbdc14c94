//! Varints: seven bits a byte, the lowest first, the high bit set in all bytes but the last. Tables
//! and strings share them with protobuf.

/// Takes a varint of at most 64 bits from the front of `bytes`.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for (index, &byte) in bytes.iter().enumerate().take(10) {
        // The tenth byte has room for one bit.
        if index == 9 && byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return Some(value);
        }
    }
    None
}

/// Takes a varint of at most 32 bits, as a length in memory.
pub(crate) fn take_len(bytes: &mut &[u8]) -> Option<usize> {
    usize::try_from(u32::try_from(take(bytes)?).ok()?).ok()
}

/// Appends a varint.
pub(crate) fn push(mut value: u64, output: &mut Vec<u8>) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            return output.push(low & 0x7f);
        }
        output.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_is_taken() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            push(value, &mut bytes);
            bytes.push(7);
            let mut rest = &bytes[..];
            assert_eq!(take(&mut rest), Some(value));
            assert_eq!(rest, [7]);
        }
    }

    #[test]
    fn a_varint_ends_and_fits() {
        assert_eq!(take(&mut &[][..]), None);
        assert_eq!(take(&mut &[0x80, 0x80][..]), None);
        assert_eq!(take(&mut &[0xff; 12][..]), None);
        let mut ten = [0xff; 10];
        ten[9] = 2;
        assert_eq!(take(&mut &ten[..]), None);
        assert_eq!(take_len(&mut &[0x80, 0x80, 0x80, 0x80, 0x10][..]), None);
        assert_eq!(take_len(&mut &[0xac, 0x02][..]), Some(300));
    }
}
