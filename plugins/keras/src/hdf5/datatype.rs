//! A datatype says what an element is: a number of which this project has a dtype, a text, or bytes that say nothing.
//!
//! ```text
//! class and version u8, class's bits u24, bytes of an element u32, then by class:
//!  0 integer    bit offset u16, precision u16; bits: 0 big-endian, 3 signed
//!  1 float      the same, exponent's place and length u8, mantissa's, bias u32; bits: 0 and 6 byte order, 8.. sign's place
//!  3 text       bits: 0..4 padding
//!  5 opaque     a tag
//!  6 compound   members: name, offset, type; {r, i} is a complex number
//!  8 enum       the integer's type, names, values; {FALSE 0, TRUE 1} over i8 is a bool
//!  9 variable   the element's type; bits: 0..4 1 for text
//! 10 array      rank, dimensions, the element's type
//! 11 complex    the parts' type
//! ```

use tensorferry_sdk::{ByteOrder, Dtype, Error, Result};

/// What an element is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    Number(Dtype, ByteOrder),
    /// Text of one width.
    FixedText(Padding),
    /// Text in a heap.
    VariableText,
    /// Bytes of which nothing says what they are.
    Opaque,
}

/// What a text that is shorter than its place is filled with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Padding {
    /// It ends at the first NUL.
    Terminated,
    Nuls,
    Spaces,
}

/// A datatype.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Datatype {
    pub(crate) element: Element,
    /// Bytes of an element.
    pub(crate) width: u64,
    /// The dimensions that an element has itself.
    pub(crate) inner: Vec<u64>,
    /// Whether names of its values are not kept.
    pub(crate) has_names: bool,
}

/// How deep types may lie in one another.
const MOST_DEPTH: u32 = 8;

/// The layout of floats, from the precision on: the bits' offset and precision, the exponent's place and length, the
/// mantissa's, the bias; and the sign's place.
const FLOATS: &[(u32, [u8; 12], u8, Dtype)] = &[
    (2, [0, 0, 16, 0, 10, 5, 0, 10, 15, 0, 0, 0], 15, Dtype::F16),
    (2, [0, 0, 16, 0, 7, 8, 0, 7, 127, 0, 0, 0], 15, Dtype::BF16),
    (4, [0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0], 31, Dtype::F32),
    (8, [0, 0, 64, 0, 52, 11, 0, 52, 255, 3, 0, 0], 63, Dtype::F64),
];

impl Padding {
    /// The text in a place.
    pub(crate) fn trim(self, place: &[u8]) -> &[u8] {
        let len = match self {
            Self::Terminated => place.iter().position(|&byte| byte == 0).unwrap_or(place.len()),
            Self::Nuls => place.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1),
            Self::Spaces => place.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1),
        };
        &place[..len]
    }
}

impl Datatype {
    /// Parses a datatype message.
    ///
    /// # Errors
    /// Malformed; unsupported, if there is no dtype for it.
    pub(crate) fn parse(message: &[u8]) -> Result<Self> {
        Parser { bytes: message, at: 0 }.datatype(0)
    }
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..len));
        self.at += len;
        taken.ok_or_else(|| Error::malformed("a datatype is shorter than it says"))
    }

    fn number(&mut self, len: usize) -> Result<u32> {
        let bytes = self.take(len)?;
        Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte)))
    }

    fn name(&mut self, padded: bool) -> Result<&'a [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let len = rest.iter().position(|&byte| byte == 0);
        let len = len.ok_or_else(|| Error::malformed("a datatype has a name without an end"))?;
        let whole = if padded { (len + 1).next_multiple_of(8) } else { len + 1 };
        self.take(whole)?;
        Ok(&rest[..len])
    }

    fn datatype(&mut self, depth: u32) -> Result<Datatype> {
        if depth > MOST_DEPTH {
            return Err(Error::unsupported("datatypes that lie in one another").expected(MOST_DEPTH));
        }
        let (class, bits, width) = (self.number(1)?, self.number(3)?, self.number(4)?);
        let (version, class) = (class >> 4, class & 15);
        let plain = |element| Datatype { element, width: width.into(), inner: vec![], has_names: false };
        if width == 0 {
            return Err(Error::malformed("a datatype of no bytes"));
        }
        let order = if bits & 1 == 0 { ByteOrder::Little } else { ByteOrder::Big };
        match class {
            0 => {
                let (offset, precision) = (self.number(2)?, self.number(2)?);
                integer(width, bits & 8 != 0, offset, precision)
                    .map(|dtype| plain(Element::Number(dtype, order)))
            }
            1 => {
                let layout = self.take(12)?;
                let sign = bits >> 8 & 0xff;
                let of = |&&(bytes, known, place, _): &&(u32, [u8; 12], u8, Dtype)| {
                    bytes == width && known == layout && u32::from(place) == sign
                };
                // 0x40 with the first bit is VAX's order; 0x30 says how the mantissa begins.
                let is_known = bits & 0x40 == 0 && bits & 0x30 == 0x20;
                match FLOATS.iter().find(of).filter(|_| is_known) {
                    Some(&(.., dtype)) => Ok(plain(Element::Number(dtype, order))),
                    None => {
                        Err(Error::unsupported(format!("a float of {width} bytes in a layout of its own")))
                    }
                }
            }
            2 => Err(Error::unsupported("a time")),
            3 => Ok(plain(Element::FixedText(match bits & 15 {
                0 => Padding::Terminated,
                1 => Padding::Nuls,
                2 => Padding::Spaces,
                other => return Err(Error::unsupported("a text's padding").found(other)),
            }))),
            4 => {
                let (offset, precision) = (self.number(2)?, self.number(2)?);
                integer(width, false, offset, precision).map(|dtype| plain(Element::Number(dtype, order)))
            }
            5 => Ok(plain(Element::Opaque)),
            6 => self.compound(version, bits & 0xffff, width, depth).map(plain),
            7 => Err(Error::unsupported("references to objects")),
            8 => self.enumeration(version, bits & 0xffff, depth),
            9 if bits & 15 == 1 => Ok(plain(Element::VariableText)),
            9 => Err(Error::unsupported("lists of variable length")),
            10 => self.array(version, width, depth),
            11 => {
                let part = self.datatype(depth + 1)?;
                complex(&part, width).map(plain)
            }
            other => Err(Error::malformed("a class of datatypes that is not there").found(other)),
        }
    }

    /// A compound is a complex number, or nothing that a tensor can hold.
    fn compound(&mut self, version: u32, members: u32, width: u32, depth: u32) -> Result<Element> {
        let refused = || Error::unsupported(format!("structures of {members} fields, which are a table"));
        if members != 2 {
            return Err(refused());
        }
        let mut parts = Vec::new();
        for _ in 0..2 {
            let name = self.name(version < 3)?;
            let offset_len = if version < 3 { 4 } else { (32 - width.leading_zeros()).div_ceil(8) as usize };
            let offset = self.number(offset_len)?;
            if version == 1 {
                self.take(28)?;
            }
            parts.push((name, offset, self.datatype(depth + 1)?));
        }
        match &*parts {
            [(b"r", 0, real), (b"i", at, imaginary)] if real == imaginary && u64::from(*at) == real.width => {
                complex(real, width)
            }
            _ => Err(refused()),
        }
    }

    fn enumeration(&mut self, version: u32, members: u32, depth: u32) -> Result<Datatype> {
        let base = self.datatype(depth + 1)?;
        let Element::Number(dtype, _) = base.element else {
            return Err(Error::malformed("an enumeration of what is no integer"));
        };
        let names = (0..members).map(|_| self.name(version < 3)).collect::<Result<Vec<_>>>()?;
        let width = usize::try_from(base.width).unwrap_or(0);
        let values = self.take(names.len() * width)?;
        let is_bool = dtype == Dtype::I8
            && matches!((&*names, values), ([b"FALSE", b"TRUE"], [0, 1]) | ([b"TRUE", b"FALSE"], [1, 0]));
        if is_bool {
            return Ok(Datatype { element: Element::Number(Dtype::BOOL, ByteOrder::Little), ..base });
        }
        Ok(Datatype { has_names: true, ..base })
    }

    fn array(&mut self, version: u32, width: u32, depth: u32) -> Result<Datatype> {
        let rank = self.number(1)? as usize;
        if version < 3 {
            self.take(3)?;
        }
        let mut inner = Vec::new();
        for _ in 0..rank {
            inner.push(u64::from(self.number(4)?));
        }
        if version < 3 {
            self.take(4 * rank)?;
        }
        let base = self.datatype(depth + 1)?;
        let count = inner.iter().try_fold(base.width, |count, &dim| count.checked_mul(dim));
        if count != Some(width.into()) {
            return Err(Error::malformed("an array's datatype does not have its length").found(width));
        }
        if !matches!(base.element, Element::Number(..)) {
            return Err(Error::unsupported("arrays of what is no number"));
        }
        inner.extend(&base.inner);
        Ok(Datatype { width: width.into(), inner, ..base })
    }
}

fn integer(width: u32, signed: bool, offset: u32, precision: u32) -> Result<Dtype> {
    let dtype = match (width, signed) {
        (1, true) => Dtype::I8,
        (2, true) => Dtype::I16,
        (4, true) => Dtype::I32,
        (8, true) => Dtype::I64,
        (1, false) => Dtype::U8,
        (2, false) => Dtype::U16,
        (4, false) => Dtype::U32,
        (8, false) => Dtype::U64,
        _ => return Err(Error::unsupported(format!("integers of {width} bytes"))),
    };
    if (offset, precision) != (0, 8 * width) {
        return Err(Error::unsupported(format!("integers of {precision} bits in {width} bytes")));
    }
    Ok(dtype)
}

fn complex(part: &Datatype, width: u32) -> Result<Element> {
    let refused = || Error::unsupported("complex numbers of what is no f16, f32 or f64");
    let Element::Number(dtype, order) = part.element else { return Err(refused()) };
    let dtype = match dtype {
        Dtype::F16 => Dtype::C32,
        Dtype::F32 => Dtype::C64,
        Dtype::F64 => Dtype::C128,
        _ => return Err(refused()),
    };
    if u64::from(width) != 2 * part.width {
        return Err(refused());
    }
    Ok(Element::Number(dtype, order))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::ErrorKind;

    fn of(hex: &str) -> Result<Datatype> {
        let digits: Vec<u8> = hex
            .bytes()
            .filter(u8::is_ascii_hexdigit)
            .map(|b| u8::try_from((b as char).to_digit(16).unwrap()).unwrap())
            .collect();
        Datatype::parse(&digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect::<Vec<u8>>())
    }

    #[test]
    fn layouts_decide() {
        let number = |hex: &str| match of(hex).unwrap().element {
            Element::Number(dtype, order) => (dtype, order),
            other => panic!("{other:?}"),
        };
        let f32 = "11201f00 04000000 00002000 17080017 7f000000";
        assert_eq!(number(f32), (Dtype::F32, ByteOrder::Little));
        assert_eq!(number(&f32.replace("11201f00", "11211f00")), (Dtype::F32, ByteOrder::Big));
        assert_eq!(number("11200f00 02000000 00001000 07080007 7f000000").0, Dtype::BF16);
        assert_eq!(number("11200f00 02000000 00001000 0a05000a 0f000000").0, Dtype::F16);
        // VAX's order, another bias, an integer of 20 bits.
        for hex in [
            f32.replace("11201f00", "11611f00"),
            f32.replace("7f000000", "80000000"),
            "10080000 04000000 00001400".to_owned(),
        ] {
            assert_eq!(of(&hex).unwrap_err().kind(), ErrorKind::Unsupported, "{hex}");
        }
        assert_eq!(of("10080000 04000000 0000").unwrap_err().kind(), ErrorKind::Malformed);
        assert_eq!(of("10080000 00000000 00000000").unwrap_err().kind(), ErrorKind::Malformed);
    }

    #[test]
    fn types_in_types_end() {
        let deep = "1a000000 01000000 01000000 01000000 00000000".repeat(20);
        assert_eq!(of(&deep).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
