//! A descr is numpy's word for a dtype: byte order, kind, bytes an element (`<f4`).

use tensorferry_sdk::{ByteOrder, Dtype, Error, Result};

/// Every dtype that numpy and the SDK share, by numpy's kind and width.
const SHARED: [(&str, Dtype); 14] = [
    ("b1", Dtype::BOOL),
    ("i1", Dtype::I8),
    ("u1", Dtype::U8),
    ("i2", Dtype::I16),
    ("u2", Dtype::U16),
    ("i4", Dtype::I32),
    ("u4", Dtype::U32),
    ("i8", Dtype::I64),
    ("u8", Dtype::U64),
    ("f2", Dtype::F16),
    ("f4", Dtype::F32),
    ("f8", Dtype::F64),
    ("c8", Dtype::C64),
    ("c16", Dtype::C128),
];

/// The dtype and byte order of a descr.
///
/// # Errors
/// Unsupported for strings, objects, dates, raw bytes and long doubles; malformed for anything
/// that numpy does not write.
pub(crate) fn parse(descr: &str) -> Result<(Dtype, ByteOrder)> {
    let mut chars = descr.chars();
    let order = chars.next();
    let kind = chars.as_str();
    let found = SHARED.iter().find(|(word, _)| *word == kind);
    let Some(&(_, dtype)) = found else {
        return Err(refusal(kind).found(format!("{descr:?}")));
    };
    match (order, is_one_byte(kind)) {
        (Some('|' | '<' | '>'), true) | (Some('<'), false) => Ok((dtype, ByteOrder::Little)),
        (Some('>'), false) => Ok((dtype, ByteOrder::Big)),
        _ => Err(Error::malformed("the dtype does not say its byte order")
            .expected("< or > before it")
            .found(format!("{descr:?}"))),
    }
}

/// The descr of a dtype, if numpy has it.
pub(crate) fn descr(dtype: Dtype, byte_order: ByteOrder) -> Option<String> {
    let (kind, _) = SHARED.iter().find(|(_, shared)| *shared == dtype)?;
    let order = match byte_order {
        _ if is_one_byte(kind) => '|',
        ByteOrder::Little => '<',
        ByteOrder::Big => '>',
    };
    Some(format!("{order}{kind}"))
}

fn is_one_byte(kind: &str) -> bool {
    kind.ends_with('1')
}

fn refusal(kind: &str) -> Error {
    Error::unsupported(match kind.chars().next() {
        Some('O') => "an array of Python objects, which only pickle can read",
        Some('S' | 'a' | 'U' | 'T') => "an array of strings",
        Some('M' | 'm') => "an array of dates or durations",
        Some('V') => "an array of raw bytes, whose own dtype (bfloat16?) numpy does not record",
        Some('f' | 'c') => "an array of long doubles, whose layout is the machine's",
        _ => return Error::malformed("not a dtype of numpy's"),
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use tensorferry_sdk::ErrorKind;

    #[test]
    fn every_shared_dtype_comes_back() {
        for (_, dtype) in SHARED {
            for order in [ByteOrder::Little, ByteOrder::Big] {
                let (back, back_order) = parse(&descr(dtype, order).unwrap()).unwrap();
                assert_eq!(back, dtype);
                let one_byte = dtype.info().unwrap().block_bytes() == 1;
                assert_eq!(back_order, if one_byte { ByteOrder::Little } else { order });
            }
        }
        assert_eq!(descr(Dtype::BF16, ByteOrder::Little), None);
    }

    #[test]
    fn what_numpy_alone_has_is_unsupported_and_nonsense_is_malformed() {
        for descr in ["|O", "|S5", "<U7", "<M8[ns]", "|V2", "<f16", "<c32"] {
            assert_eq!(parse(descr).unwrap_err().kind(), ErrorKind::Unsupported, "{descr}");
        }
        for descr in ["", "f", "<", "f4", "=f4", "|f4", "<x4", "\u{e9}i4", "<i3"] {
            assert_eq!(parse(descr).unwrap_err().kind(), ErrorKind::Malformed, "{descr}");
        }
    }
}
