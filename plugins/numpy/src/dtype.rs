//! Parses descrs. A descr is numpy's description of an element. It consists of a byte order, kind
//! and width (`<f4`), or of a name.

use tensorferry_sdk::{ByteOrder, Dtype, Error, Result};

/// Dtypes that both numpy and the SDK support. Each entry contains the kind and width, the dtype,
/// and the names and one-character codes that `np.dtype` accepts.
const SHARED: [(&str, Dtype, &[&str]); 14] = [
    ("b1", Dtype::BOOL, &["bool", "bool_", "?"]),
    ("i1", Dtype::I8, &["int8", "byte", "b"]),
    ("u1", Dtype::U8, &["uint8", "ubyte", "B"]),
    ("i2", Dtype::I16, &["int16", "short", "h"]),
    ("u2", Dtype::U16, &["uint16", "ushort", "H"]),
    ("i4", Dtype::I32, &["int32", "intc", "i"]),
    ("u4", Dtype::U32, &["uint32", "uintc", "I"]),
    ("i8", Dtype::I64, &["int64", "longlong", "q"]),
    ("u8", Dtype::U64, &["uint64", "ulonglong", "Q"]),
    ("f2", Dtype::F16, &["float16", "half", "e"]),
    ("f4", Dtype::F32, &["float32", "single", "f"]),
    ("f8", Dtype::F64, &["float64", "double", "float", "d"]),
    ("c8", Dtype::C64, &["complex64", "csingle", "F"]),
    ("c16", Dtype::C128, &["complex128", "cdouble", "complex", "D"]),
];

/// Dtypes that the package ml_dtypes adds to numpy. `np.dtype` accepts these names after ml_dtypes
/// is imported.
pub(crate) const ML_DTYPES: [(&str, Dtype); 7] = [
    ("bfloat16", Dtype::BF16),
    ("float8_e4m3fn", Dtype::F8_E4M3),
    ("float8_e5m2", Dtype::F8_E5M2),
    ("float8_e4m3fnuz", Dtype::F8_E4M3FNUZ),
    ("float8_e5m2fnuz", Dtype::F8_E5M2FNUZ),
    ("float8_e4m3b11fnuz", Dtype::F8_E4M3B11FNUZ),
    ("float8_e8m0fnu", Dtype::F8_E8M0),
];

/// The type of an array's elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Element {
    /// A number, and its byte order.
    Number(Dtype, ByteOrder),
    /// A date or duration, which is stored as a 64-bit integer. The string is numpy's name for the
    /// type, including the unit.
    Date(String, ByteOrder),
    /// A string with a fixed number of UTF-32 code units.
    Unicode(u64, ByteOrder),
    /// A string with a fixed number of bytes.
    Text(u64),
    /// A fixed number of bytes without a type.
    Void(u64),
}

impl Element {
    /// Returns the number of bytes in an element, or `None` if the number does not fit in 64 bits.
    pub(crate) fn width(&self) -> Option<u64> {
        match self {
            Self::Number(dtype, _) => dtype.info()?.element_bytes().map(u64::from),
            Self::Date(..) => Some(8),
            Self::Unicode(units, _) => units.checked_mul(4),
            Self::Text(len) | Self::Void(len) => Some(*len),
        }
    }

    pub(crate) fn byte_order(&self) -> ByteOrder {
        match self {
            Self::Number(_, order) | Self::Date(_, order) | Self::Unicode(_, order) => *order,
            Self::Text(_) | Self::Void(_) => ByteOrder::Little,
        }
    }
}

pub(crate) fn parse(descr: &str) -> Result<Element> {
    let named = |(kind, _, names): &&(&str, Dtype, &[&str])| names.contains(&descr) || *kind == descr;
    if let Some((_, dtype, _)) = SHARED.iter().find(named) {
        return Ok(Element::Number(*dtype, ByteOrder::Little));
    }
    if let Some((_, dtype)) = ML_DTYPES.iter().find(|(name, _)| *name == descr) {
        return Ok(Element::Number(*dtype, ByteOrder::Little));
    }
    // Without a byte-order mark, or with `=`, numpy uses the byte order of the machine that reads
    // the file. ferry assumes little-endian.
    let (order, rest) = match descr.as_bytes().first() {
        Some(b'>') => (ByteOrder::Big, &descr[1..]),
        Some(b'<' | b'=' | b'|') => (ByteOrder::Little, &descr[1..]),
        _ => (ByteOrder::Little, descr),
    };
    let number = |(kind, _, names): &&(&str, Dtype, &[&str])| {
        *kind == rest || names.iter().any(|name| name.len() == 1 && *name == rest)
    };
    if let Some((kind, dtype, _)) = SHARED.iter().find(number) {
        return Ok(Element::Number(*dtype, if kind.ends_with('1') { ByteOrder::Little } else { order }));
    }
    let malformed = || {
        let error = Error::malformed("the array's descr is not a numpy dtype");
        error.expected("such as '<f4', '|b1' or '<U8'").found(format!("{descr:?}"))
    };
    let mut chars = rest.chars();
    let kind = chars.next().ok_or_else(malformed)?;
    let rest = chars.as_str();
    let width = || {
        let plain = rest.bytes().all(|byte| byte.is_ascii_digit());
        let width = if rest.is_empty() { Some(0) } else { rest.parse().ok().filter(|_| plain) };
        width.ok_or_else(malformed)
    };
    match kind {
        'U' => Ok(Element::Unicode(width()?, order)),
        'S' | 'a' => Ok(Element::Text(width()?)),
        'V' => Ok(Element::Void(width()?)),
        'M' | 'm' => date(kind, rest).map(|name| Element::Date(name, order)).ok_or_else(malformed),
        'O' => Err(Error::unsupported("the array holds Python objects in a pickle, which ferry never runs")),
        'f' | 'c' | 'g' | 'G'
            if matches!((kind, rest), ('f', "12" | "16") | ('c', "24" | "32") | ('g' | 'G', "")) =>
        {
            Err(Error::unsupported(
                "the array holds long doubles, whose layout depends on the machine that wrote them",
            ))
        }
        _ => Err(malformed()),
    }
}

/// Returns numpy's name for a date (`M`) or duration (`m`) type. `rest` is `8`, optionally followed
/// by a unit in brackets, which may start with a count.
fn date(kind: char, rest: &str) -> Option<String> {
    const UNITS: [&str; 14] =
        ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic"];
    let name = if kind == 'M' { "datetime64" } else { "timedelta64" };
    let unit = rest.strip_prefix('8')?;
    if unit.is_empty() {
        return Some(name.to_owned());
    }
    let inner = unit.strip_prefix('[')?.strip_suffix(']')?;
    let word = inner.trim_start_matches(|c: char| c.is_ascii_digit());
    UNITS.contains(&word).then(|| format!("{name}{unit}"))
}

/// Returns the descr that `np.save` writes for a dtype, or `None` if numpy does not support the
/// dtype.
pub(crate) fn descr(dtype: Dtype) -> Option<String> {
    let (kind, ..) = SHARED.iter().find(|(_, shared, _)| *shared == dtype)?;
    Some(format!("{}{kind}", if kind.ends_with('1') { '|' } else { '<' }))
}

/// Returns the name of a dtype that ml_dtypes adds to numpy, or `None` for all other dtypes.
pub(crate) fn ml_name(dtype: Dtype) -> Option<&'static str> {
    ML_DTYPES.iter().find(|(_, added)| *added == dtype).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;

    #[test]
    fn every_shared_dtype_comes_back() {
        for (_, dtype, names) in SHARED {
            let own = descr(dtype).unwrap();
            let width = dtype.info().unwrap().element_bytes().map(u64::from);
            for text in [&own, &own[1..]].into_iter().chain(names.iter().copied()) {
                let element = parse(text).unwrap();
                assert_eq!(element, Element::Number(dtype, ByteOrder::Little), "{text}");
                assert_eq!(element.width(), width);
            }
            let big = if width == Some(1) { ByteOrder::Little } else { ByteOrder::Big };
            assert_eq!(parse(&format!(">{}", &own[1..])).unwrap(), Element::Number(dtype, big));
        }
    }

    #[test]
    fn what_is_more_than_a_number_keeps_its_facts() {
        let (little, big) = (ByteOrder::Little, ByteOrder::Big);
        for (descr, element) in [
            ("<U7", Element::Unicode(7, little)),
            (">U0", Element::Unicode(0, big)),
            ("U", Element::Unicode(0, little)),
            ("|S5", Element::Text(5)),
            ("<V2", Element::Void(2)),
            (">M8[25s]", Element::Date("datetime64[25s]".to_owned(), big)),
            ("<m8", Element::Date("timedelta64".to_owned(), little)),
            ("bfloat16", Element::Number(Dtype::BF16, little)),
            ("|i4", Element::Number(Dtype::I32, little)),
            (">f", Element::Number(Dtype::F32, big)),
        ] {
            assert_eq!(parse(descr).unwrap(), element, "{descr}");
        }
    }

    #[test]
    fn objects_are_unsupported_and_nonsense_is_malformed() {
        for descr in ["|O", "O", "|O8", "<f16", ">c32", "g"] {
            assert_eq!(parse(descr).unwrap_err().kind(), ErrorKind::Unsupported, "{descr}");
        }
        for descr in [
            "",
            "<",
            "<q7",
            "<x4",
            "<i3",
            "<f1",
            "<U-1",
            "<U+1",
            "<M8[q]",
            "<M4[s]",
            "S99999999999999999999",
            "\u{e9}",
        ] {
            assert_eq!(parse(descr).unwrap_err().kind(), ErrorKind::Malformed, "{descr}");
        }
        assert_eq!(parse("<U4611686018427387904").unwrap().width(), None);
    }
}
