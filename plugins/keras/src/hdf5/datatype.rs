//! Parses datatypes. A datatype describes the type of a dataset's elements: a number for which
//! ferry has a dtype, a string, or untyped bytes.
//!
//! ```text
//! class and version u8, class's bits u24, bytes of an element u32, then by class:
//!  0 integer    bit offset u16, precision u16; bits: 0 big-endian, 3 signed
//!  1 float      the same, exponent's position and length u8, mantissa's, bias u32; bits: 0 and 6 byte order, 8.. sign's position
//!  3 text       bits: 0..4 padding
//!  5 opaque     a tag
//!  6 compound   members: name, offset, type; {r, i} is a complex number
//!  8 enum       the integer's type, names, values; {FALSE 0, TRUE 1} over i8 is a bool
//!  9 variable   the element's type; bits: 0..4 1 for text
//! 10 array      rank, dimensions, the element's type
//! 11 complex    the parts' type
//! ```

use tensorferry_sdk::{ByteOrder, Dtype, Error, Result};

/// The type of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    Number(Dtype, ByteOrder),
    /// A string of fixed length.
    FixedText(Padding),
    /// A string of variable length, which is stored in a heap.
    VariableText,
    /// Untyped bytes.
    Opaque,
}

/// The padding of a string that is shorter than its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Padding {
    /// The string ends at the first NUL.
    Terminated,
    Nuls,
    Spaces,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Datatype {
    pub(crate) element: Element,
    /// Bytes per element.
    pub(crate) width: u64,
    /// Dimensions of each element, if the elements are arrays.
    pub(crate) inner: Vec<u64>,
    /// Whether the datatype is an enumeration, whose values have names. ferry does not keep these
    /// names.
    pub(crate) has_names: bool,
}

/// Maximum depth of nested types.
const MAX_DEPTH: u32 = 8;

/// Known layouts of floats. Each entry contains the length in bytes, twelve bytes of the datatype
/// message, the bit position of the sign, and the dtype. The twelve bytes contain the bit offset,
/// the precision, the positions and lengths of the exponent and the mantissa, and the exponent
/// bias.
const FLOATS: &[(u32, [u8; 12], u8, Dtype)] = &[
    (2, [0, 0, 16, 0, 10, 5, 0, 10, 15, 0, 0, 0], 15, Dtype::F16),
    (2, [0, 0, 16, 0, 7, 8, 0, 7, 127, 0, 0, 0], 15, Dtype::BF16),
    (4, [0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0], 31, Dtype::F32),
    (8, [0, 0, 64, 0, 52, 11, 0, 52, 255, 3, 0, 0], 63, Dtype::F64),
];

impl Padding {
    /// Returns the string in a field, without its padding.
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
    pub(crate) fn parse(message: &[u8]) -> Result<Self> {
        Parser { bytes: message, at: 0 }.datatype(0)?.map_err(Error::unsupported)
    }
}

/// A datatype, or the reason why a tensor cannot contain elements of this type.
type Parsed = Result<Datatype, String>;

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let taken = self.bytes.get(self.at..).and_then(|rest| rest.get(..len));
        self.at += len;
        taken.ok_or_else(|| Error::malformed("a datatype is truncated"))
    }

    fn number(&mut self, len: usize) -> Result<u32> {
        let bytes = self.take(len)?;
        Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u32::from(byte)))
    }

    fn name(&mut self, padded: bool) -> Result<&'a [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let len = rest.iter().position(|&byte| byte == 0);
        let len = len.ok_or_else(|| Error::malformed("a name in a datatype is not terminated"))?;
        let whole = if padded { (len + 1).next_multiple_of(8) } else { len + 1 };
        self.take(whole)?;
        Ok(&rest[..len])
    }

    /// Parses a datatype. Reads the datatype to its end even if a tensor cannot contain its
    /// elements, because another datatype may follow.
    fn datatype(&mut self, depth: u32) -> Result<Parsed> {
        if depth > MAX_DEPTH {
            return Err(Error::unsupported("datatypes are nested too deeply")
                .expected(format!("at most {MAX_DEPTH} levels")));
        }
        let (class, bits, width) = (self.number(1)?, self.number(3)?, self.number(4)?);
        let (version, class) = (class >> 4, class & 15);
        if width == 0 {
            return Err(Error::malformed("a datatype has no bytes"));
        }
        let plain = |element| Datatype { element, width: width.into(), inner: vec![], has_names: false };
        let number =
            |dtype: Result<Dtype, String>, order| dtype.map(|dtype| plain(Element::Number(dtype, order)));
        let refused = |why: &str| Ok(Err(why.to_owned()));
        let order = if bits & 1 == 0 { ByteOrder::Little } else { ByteOrder::Big };
        Ok(match class {
            0 | 4 => {
                let (offset, precision) = (self.number(2)?, self.number(2)?);
                number(integer(width, class == 0 && bits & 8 != 0, offset, precision), order)
            }
            1 => {
                let layout = self.take(12)?;
                let sign = bits >> 8 & 0xff;
                let of = |&&(bytes, known, place, _): &&(u32, [u8; 12], u8, Dtype)| {
                    bytes == width && known == layout && u32::from(place) == sign
                };
                // If bit 0 and bit 6 (0x40) are both set, the byte order is that of a VAX. The bits
                // 0x30 are the normalization of the mantissa.
                let is_known = bits & 0x40 == 0 && bits & 0x30 == 0x20;
                let known = FLOATS.iter().find(of).filter(|_| is_known).map(|&(.., dtype)| dtype);
                number(known.ok_or_else(|| format!("a float of {width} bytes in an unknown layout")), order)
            }
            2 => {
                self.take(2)?;
                return refused("a time");
            }
            3 => match bits & 15 {
                0 => Ok(plain(Element::FixedText(Padding::Terminated))),
                1 => Ok(plain(Element::FixedText(Padding::Nuls))),
                2 => Ok(plain(Element::FixedText(Padding::Spaces))),
                other => Err(format!("a string with the padding {other}")),
            },
            5 => {
                self.take(bits as usize & 0xff)?;
                Ok(plain(Element::Opaque))
            }
            6 => self.compound(version, bits & 0xffff, width, depth)?.map(plain),
            7 => return refused("references to objects"),
            8 => self.enumeration(version, bits & 0xffff, depth)?,
            9 => {
                let is_text = bits & 15 == 1;
                // Skip the type of the list's or string's elements.
                let _ = self.datatype(depth + 1)?;
                if !is_text {
                    return refused("lists of variable length");
                }
                Ok(plain(Element::VariableText))
            }
            10 => self.array(version, width, depth)?,
            11 => {
                let part = self.datatype(depth + 1)?;
                complex(part.ok().as_ref(), width).map(plain)
            }
            other => return Err(Error::malformed("unknown datatype class").found(other)),
        })
    }

    /// Parses a compound type, which is either a complex number or a type that a tensor cannot
    /// contain.
    fn compound(
        &mut self,
        version: u32,
        members: u32,
        width: u32,
        depth: u32,
    ) -> Result<Result<Element, String>> {
        let mut parts = Vec::new();
        for _ in 0..members {
            let name = self.name(version < 3)?;
            let offset_len = if version < 3 { 4 } else { (32 - width.leading_zeros()).div_ceil(8) as usize };
            let offset = self.number(offset_len)?;
            // In version 1, a member's dimensions are stored at this position.
            let is_array = version == 1 && self.take(28)?[0] != 0;
            let member = self.datatype(depth + 1)?.ok().filter(|_| !is_array);
            if members == 2 {
                parts.push((name, u64::from(offset), member));
            }
        }
        if let [(b"r", 0, Some(real)), (b"i", at, Some(imaginary))] = &*parts
            && real == imaginary
            && *at == real.width
        {
            return Ok(complex(Some(real), width));
        }
        Ok(Err(format!("a table with {members} columns")))
    }

    fn enumeration(&mut self, version: u32, members: u32, depth: u32) -> Result<Parsed> {
        let base = self.datatype(depth + 1)?;
        let names = (0..members).map(|_| self.name(version < 3)).collect::<Result<Vec<_>>>()?;
        let Ok(base) = base else {
            return Ok(Err("an enumeration of integers without a dtype".to_owned()));
        };
        let width = usize::try_from(base.width).unwrap_or(0);
        let values = self.take(names.len() * width)?;
        let Element::Number(dtype, _) = base.element else {
            return Err(Error::malformed("the base type of an enumeration is not an integer"));
        };
        let is_bool = dtype == Dtype::I8
            && matches!((&*names, values), ([b"FALSE", b"TRUE"], [0, 1]) | ([b"TRUE", b"FALSE"], [1, 0]));
        Ok(Ok(if is_bool {
            Datatype { element: Element::Number(Dtype::BOOL, ByteOrder::Little), ..base }
        } else {
            Datatype { has_names: true, ..base }
        }))
    }

    fn array(&mut self, version: u32, width: u32, depth: u32) -> Result<Parsed> {
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
        let base = match self.datatype(depth + 1)? {
            Ok(base) => base,
            Err(why) => return Ok(Err(format!("arrays of {why}"))),
        };
        let count = inner.iter().try_fold(base.width, |count, &dim| count.checked_mul(dim));
        if count != Some(width.into()) {
            return Err(
                Error::malformed("the length of an array type does not match its dimensions").found(width)
            );
        }
        if !matches!(base.element, Element::Number(..)) {
            return Ok(Err("arrays of elements that are not numbers".to_owned()));
        }
        inner.extend(&base.inner);
        Ok(Ok(Datatype { width: width.into(), inner, ..base }))
    }
}

fn integer(width: u32, signed: bool, offset: u32, precision: u32) -> Result<Dtype, String> {
    let dtype = match (width, signed) {
        (1, true) => Dtype::I8,
        (2, true) => Dtype::I16,
        (4, true) => Dtype::I32,
        (8, true) => Dtype::I64,
        (1, false) => Dtype::U8,
        (2, false) => Dtype::U16,
        (4, false) => Dtype::U32,
        (8, false) => Dtype::U64,
        _ => return Err(format!("integers of {width} bytes")),
    };
    if (offset, precision) != (0, 8 * width) {
        return Err(format!("integers of {precision} bits in {width} bytes"));
    }
    Ok(dtype)
}

fn complex(part: Option<&Datatype>, width: u32) -> Result<Element, String> {
    let refused = || "complex numbers whose parts are not f16, f32 or f64".to_owned();
    let part = part.filter(|part| u64::from(width) == 2 * part.width).ok_or_else(refused)?;
    let Element::Number(dtype, order) = part.element else { return Err(refused()) };
    let dtype = match dtype {
        Dtype::F16 => Dtype::C32,
        Dtype::F32 => Dtype::C64,
        Dtype::F64 => Dtype::C128,
        _ => return Err(refused()),
    };
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
        // These types are unsupported: VAX byte order, a nonstandard exponent bias, and an integer
        // of 20 bits.
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
    fn members_of_a_table_are_parsed_to_their_ends() {
        // These types are strings in a heap, an opaque type with a tag, a reference, a time, an
        // enumeration of 24 bits and an array of strings. A number's datatype follows each of them,
        // and would appear malformed if the parser did not find the end of the preceding type.
        let text = "19010000 10000000 13000000 01000000";
        let opaque = "15080000 02000000 7461670000000000";
        let reference = "17000000 08000000";
        let time = "12000000 04000000 2000";
        let enumeration = "38010000 04000000 10000000 04000000 00001800 4100 01000000";
        let texts = "3a000000 10000000 01 01000000 19010000 10000000 13000000 01000000";
        let number = "10080000 04000000 00002000";
        for member in [text, opaque, reference, time, enumeration, texts] {
            let table = format!("36020000 14000000 6100 00 {member} 6200 10 {number}");
            let error = of(&table).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{member}: {error}");
            assert!(error.to_string().contains("a table with 2 columns"), "{error}");
        }
        let cut = format!("36020000 14000000 6100 00 {text} 6200 10 10080000");
        assert_eq!(of(&cut).unwrap_err().kind(), ErrorKind::Malformed);
    }

    #[test]
    fn types_in_types_end() {
        let deep = "1a000000 01000000 01000000 01000000 00000000".repeat(20);
        assert_eq!(of(&deep).unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
