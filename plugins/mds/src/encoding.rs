//! Encodings of column values.
//!
//! | Encoding | Bytes |
//! |---|---|
//! | `bytes`, `str`, `json` | unchanged; strings are UTF-8 |
//! | `str_int`, `str_float`, `str_decimal` | a decimal number of any length, as a string |
//! | `int`, `int8` .. `uint64`, `float16` .. `float64` | a number; `int` has 64 bits |
//! | `ndarray:T:d0,d1` | numbers |
//! | `ndarray:T` | a shape, then numbers |
//! | `ndarray` | u8 number type, a shape, then numbers |
//! | `jpeg`, `png` | the file |
//! | `pil` | u32 width, height, length of the mode; mode; pixels |
//! | `jpeg_array`, `jpegarray` | u32 n, u32 sizes, files |
//! | `list[jpeg]`, `list[png]`, `list[pil]` | u32 0, u32 n, u32 sizes, items |
//! | `pkl` | a pickle, which is never opened |
//!
//! A shape begins with a byte that contains the number of dimensions and the width of each
//! dimension in bytes. The byte is 4 times the number, plus the base-2 logarithm of the width. The
//! dimensions follow. A shape has at least one dimension, and no dimension is 0.

use crate::numbers::Number;
use tensorferry_sdk::{Error, Result};

const MAX_DIMENSIONS: usize = 63;
/// Image encodings. The images are read as bytes.
const IMAGES: [&str; 8] =
    ["jpeg", "png", "pil", "jpeg_array", "jpegarray", "list[pil]", "list[jpeg]", "list[png]"];

/// Field names of the struct that represents an array if the type or depth of the column's arrays
/// varies.
pub(crate) const DTYPE: &str = "dtype";
pub(crate) const SHAPE: &str = "shape";
pub(crate) const VALUES: &str = "values";

/// Encoding of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Encoding {
    Bytes,
    /// An image file, or a container of several image files, which is copied as bytes.
    Image(&'static str),
    Pickle,
    Text(&'static str),
    /// A number. The encoding `int` is a 64-bit integer.
    Number(Number),
    /// Numbers with a shape. If `number` or `shape` is `None`, each value contains its own type or
    /// shape.
    Array {
        number: Option<Number>,
        shape: Option<Vec<u64>>,
    },
}

/// Encodings of strings. The first one is for strings without a special meaning.
const TEXTS: [&str; 5] = ["str", "json", "str_int", "str_float", "str_decimal"];

impl Encoding {
    /// Parses the name of an encoding.
    pub(crate) fn parse(name: &str) -> Result<Self> {
        let unknown = || Error::unsupported("an unknown encoding").found(format!("{name:?}"));
        if let Some(text) = TEXTS.into_iter().find(|text| *text == name) {
            return Ok(Self::Text(text));
        }
        if let Some(image) = IMAGES.into_iter().find(|image| *image == name) {
            return Ok(Self::Image(image));
        }
        match name {
            "bytes" => return Ok(Self::Bytes),
            "pkl" => return Ok(Self::Pickle),
            "int" => return Ok(Self::Number(Number::Int64)),
            "ndarray" => return Ok(Self::Array { number: None, shape: None }),
            _ => {}
        }
        let Some(of) = name.strip_prefix("ndarray:") else {
            return Number::named(name).map(Self::Number).ok_or_else(unknown);
        };
        let (number, shape) = of.split_once(':').map_or((of, None), |(number, shape)| (number, Some(shape)));
        let number = if number.is_empty() { None } else { Some(Number::named(number).ok_or_else(unknown)?) };
        let dimension = |text: &str| text.trim().parse::<u64>().ok().filter(|dimension| *dimension > 0);
        let shape = shape.map(|shape| shape.split(',').map(dimension).collect::<Option<Vec<u64>>>());
        match shape {
            None => Ok(Self::Array { number, shape: None }),
            Some(Some(shape)) if shape.len() <= MAX_DIMENSIONS => {
                Ok(Self::Array { number, shape: Some(shape) })
            }
            _ => Err(unknown()),
        }
    }

    /// Returns the length of every value in bytes, or `None` if the length varies.
    pub(crate) fn size(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(number.width() as u64),
            Self::Array { number: Some(number), shape: Some(shape) } => {
                shape.iter().try_fold(number.width() as u64, |size, dimension| size.checked_mul(*dimension))
            }
            _ => None,
        }
    }
}

/// A parsed array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ArrayValue<'a> {
    pub(crate) number: Number,
    /// The dimensions, which are either stored in each value or the same for all arrays in the
    /// column.
    dimensions: Dimensions<'a>,
    pub(crate) values: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dimensions<'a> {
    Fixed(&'a [u64]),
    PerValue(usize, &'a [u8]),
}

impl<'a> ArrayValue<'a> {
    /// Parses a value of an array column.
    pub(crate) fn parse(bytes: &'a [u8], number: Option<Number>, shape: Option<&'a [u64]>) -> Result<Self> {
        let mut rest = bytes;
        let mut byte = || {
            let (first, more) = rest.split_first().ok_or_else(cut)?;
            rest = more;
            Ok::<u8, Error>(*first)
        };
        let number = match number {
            Some(number) => number,
            None => {
                let code = byte()?;
                let unknown = || Error::malformed("an array has an unknown type").found(code);
                Number::coded(code).ok_or_else(unknown)?
            }
        };
        let dimensions = match shape {
            Some(shape) => Dimensions::Fixed(shape),
            None => {
                let head = byte()?;
                let (count, width) = (usize::from(head >> 2), 1 << (head & 3));
                let (dimensions, more) = rest.split_at_checked(count * width).ok_or_else(cut)?;
                rest = more;
                Dimensions::PerValue(width, dimensions)
            }
        };
        let value = Self { number, dimensions, values: rest };
        if value.rank() == 0 {
            return Err(Error::malformed("an array has no dimensions"));
        }
        let mut len = number.width() as u64;
        for dimension in value.shape() {
            // An empty array could claim any number of lists, so no dimension may be 0.
            len = len.checked_mul(dimension).filter(|len| *len > 0).ok_or_else(|| value.misfit())?;
        }
        if len == rest.len() as u64 { Ok(value) } else { Err(value.misfit()) }
    }

    fn misfit(&self) -> Error {
        Error::malformed("the shape of an array does not match its numbers")
            .expected(format!("{:?} of {}", self.shape().collect::<Vec<_>>(), self.number.word()))
            .found(format!("{} bytes", self.values.len()))
    }

    /// Returns the number of dimensions.
    pub(crate) fn rank(&self) -> usize {
        match self.dimensions {
            Dimensions::Fixed(shape) => shape.len(),
            Dimensions::PerValue(width, bytes) => bytes.len() / width,
        }
    }

    /// Returns the dimensions.
    pub(crate) fn shape(&self) -> impl Iterator<Item = u64> + 'a {
        let (fixed, width, declared) = match self.dimensions {
            Dimensions::Fixed(shape) => (shape, 1, &[][..]),
            Dimensions::PerValue(width, bytes) => (&[][..], width, bytes),
        };
        let of = |bytes: &[u8]| bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        fixed.iter().copied().chain(declared.chunks_exact(width).map(of))
    }
}

fn cut() -> Error {
    Error::malformed("an array ends within its shape")
}

/// Appends an encoded shape.
pub(crate) fn put_shape(shape: &[u64], out: &mut Vec<u8>) -> Result<()> {
    if shape.is_empty() || shape.len() > MAX_DIMENSIONS || shape.contains(&0) {
        return Err(Error::unsupported("MDS has no empty arrays")
            .hint("pass -o lists=json to write such lists as JSON")
            .found(format!("{shape:?}")));
    }
    let max = shape.iter().copied().max().unwrap_or_default();
    let power = match max {
        0..=0xff => 0,
        0x100..=0xffff => 1,
        0x1_0000..=0xffff_ffff => 2,
        _ => 3,
    };
    let count = u8::try_from(shape.len()).unwrap_or(u8::MAX);
    out.push(count << 2 | power);
    shape.iter().for_each(|dimension| out.extend_from_slice(&dimension.to_le_bytes()[..1 << power]));
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn names_are_parsed() {
        assert_eq!(Encoding::parse("int").unwrap().size(), Some(8));
        assert_eq!(Encoding::parse("ndarray:int16:2,3").unwrap().size(), Some(12));
        assert_eq!(Encoding::parse("ndarray:float32").unwrap().size(), None);
        for unknown in
            ["", "int128", "ndarray:", "ndarray:bool:1", "ndarray:int8:0", "ndarray:int8:2,", "list[x]"]
        {
            let parsed = Encoding::parse(unknown);
            assert!(parsed.is_err() || unknown == "ndarray:", "{unknown}: {parsed:?}");
        }
    }

    #[test]
    fn a_shape_comes_back_and_must_fit() {
        for shape in [&[3][..], &[1, 2, 300], &[70_000]] {
            let mut bytes = Vec::new();
            put_shape(shape, &mut bytes).unwrap();
            let count: u64 = shape.iter().product();
            bytes.extend(vec![0; usize::try_from(count).unwrap()]);
            let value = ArrayValue::parse(&bytes, Some(Number::UInt8), None).unwrap();
            assert_eq!((value.shape().collect::<Vec<_>>(), value.rank()), (shape.to_vec(), shape.len()));
            assert!(ArrayValue::parse(&bytes[..bytes.len() - 1], Some(Number::UInt8), None).is_err());
        }
        for bad in [&[][..], &[4], &[0], &[4, 0], &[12, 255, 255, 255], &[11, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]] {
            assert!(ArrayValue::parse(bad, Some(Number::Int64), None).is_err(), "{bad:?}");
        }
        assert!(put_shape(&[0], &mut Vec::new()).is_err());
    }
}
