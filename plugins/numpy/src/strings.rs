//! Converts strings. In numpy, strings have a fixed width and are padded with NULs. In a tensor,
//! each string is preceded by its length as a u64.

use crate::dtype::Element;
use tensorferry_sdk::{ByteOrder, Error, Limits, Order, Result};

/// Converts an array's strings to the bytes of a tensor of strings.
pub(crate) fn logical(
    elements: &[u8],
    element: &Element,
    order: Order,
    shape: &[u64],
    limits: &Limits,
) -> Result<Vec<u8>> {
    let count = shape.iter().try_fold(1_u64, |count, &dim| count.checked_mul(dim));
    // The length prefixes take eight bytes per string. Counting the prefixes also limits the number
    // of zero-width strings, which take no other memory.
    let held = count.and_then(|count| count.checked_mul(8)).filter(|&len| len <= limits.header_bytes);
    let Some((count, _)) = count.zip(held) else {
        return Err(Error::limit("too many strings to hold in memory")
            .expected(format!("at most {} bytes", limits.header_bytes))
            .found(format!("shape {shape:?}"))
            .hint("raise the limit with --limit header_bytes=N"));
    };
    let width = element.width().and_then(|width| usize::try_from(width).ok()).unwrap_or(usize::MAX);
    let mut logical = Vec::new();
    let mut text = Vec::new();
    for index in 0..count {
        let place = match order {
            Order::C => index,
            Order::Fortran => column_major_place(index, shape),
        };
        let start = usize::try_from(place).ok().and_then(|place| place.checked_mul(width));
        let bytes = start.and_then(|start| elements.get(start..start.checked_add(width)?));
        let bytes = bytes.ok_or_else(|| Error::malformed("the array's strings are incomplete"))?;
        text.clear();
        match element {
            Element::Unicode(_, byte_order) => push_utf8(bytes, *byte_order, &mut text)?,
            _ => text.extend_from_slice(bytes),
        }
        let len = text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        logical.extend((len as u64).to_le_bytes());
        logical.extend_from_slice(&text[..len]);
    }
    Ok(logical)
}

/// Converts an index in row-major order to an index in column-major order.
fn column_major_place(index: u64, shape: &[u64]) -> u64 {
    let mut rest = index;
    let mut stride = shape.iter().product::<u64>();
    let mut place = 0;
    // Start at the last dimension, which has the largest stride in column-major order.
    for &dim in shape.iter().rev() {
        stride /= dim;
        place += rest % dim * stride;
        rest /= dim;
    }
    place
}

fn push_utf8(units: &[u8], byte_order: ByteOrder, text: &mut Vec<u8>) -> Result<()> {
    let mut buffer = [0; 4];
    for &unit in units.as_chunks().0 {
        let unit = match byte_order {
            ByteOrder::Little => u32::from_le_bytes(unit),
            ByteOrder::Big => u32::from_be_bytes(unit),
        };
        let character = char::from_u32(unit).ok_or_else(|| {
            Error::malformed("a string has a code unit that is not a character").found(format!("0x{unit:x}"))
        })?;
        text.extend(character.encode_utf8(&mut buffer).as_bytes());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;

    #[test]
    fn padding_goes_and_inner_nuls_stay() {
        let (element, limits) = (Element::Text(3), Limits::default());
        let logical = logical(b"a\0\0a\0b\0\0\0", &element, Order::C, &[3], &limits).unwrap();
        let expected =
            [&1_u64.to_le_bytes()[..], b"a", &3_u64.to_le_bytes(), b"a\0b", &0_u64.to_le_bytes()].concat();
        assert_eq!(logical, expected);
    }

    #[test]
    fn columns_become_rows() {
        let read = |order, shape: &[u64]| {
            let bytes = logical(b"abcdef", &Element::Text(1), order, shape, &Limits::default()).unwrap();
            String::from_utf8(bytes.chunks(9).map(|string| string[8]).collect()).unwrap()
        };
        assert_eq!(read(Order::C, &[2, 3]), "abcdef");
        assert_eq!(read(Order::Fortran, &[2, 3]), "acebdf");
        assert_eq!(read(Order::Fortran, &[1, 2, 3]), "acebdf");
        assert_eq!(read(Order::Fortran, &[3, 2, 1]), "adbecf");
    }

    #[test]
    fn units_that_are_no_characters_are_refused() {
        for unit in [0xd800_u32, 0x11_0000] {
            let element = Element::Unicode(1, ByteOrder::Big);
            let error =
                logical(&unit.to_be_bytes(), &element, Order::C, &[], &Limits::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed);
        }
    }

    #[test]
    fn strings_of_no_width_are_counted() {
        let element = Element::Text(0);
        let error = logical(b"", &element, Order::C, &[1 << 40], &Limits::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
    }
}
