//! The header of an array, which contains the shape, and the type and order of the elements.

use crate::dtype::{self, Element};
use crate::literal::{self, Literal, PythonVersion};
use crate::structure::{self, Structure};
use tensorferry_sdk::{Error, Limits, Order, Result};

pub(crate) const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// numpy aligns the elements to a multiple of this number of bytes.
const ALIGNMENT: usize = 64;
/// Number of digits that numpy reserves for the growing dimension, so that its value can be updated
/// in place.
const GROWTH_DIGITS: usize = 21;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) descr: Descr,
    pub(crate) order: Order,
    pub(crate) shape: Vec<u64>,
    /// Number of bytes before the elements.
    pub(crate) len: u64,
}

/// Type of the elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Descr {
    Element(Element),
    Structure(Structure),
}

impl Header {
    /// Reads a header. `front` returns the requested number of bytes from the start of the array,
    /// or fails if the array is shorter. Memory is therefore never allocated for an incorrect
    /// length in the header.
    pub(crate) fn read(limits: &Limits, front: &dyn Fn(u64) -> Result<Vec<u8>>) -> Result<Self> {
        let start = front(10)?;
        if !start.starts_with(MAGIC) {
            return Err(Error::malformed("not a numpy array")
                .offset(0)
                .expected("93 \"NUMPY\"")
                .found(format!("{:?}", start[..6].escape_ascii().to_string())));
        }
        let (prefix, python) = match (start[6], start[7]) {
            (1, 0) => (10, PythonVersion::Any),
            (2, 0) => (12, PythonVersion::Any),
            (3, 0) => (12, PythonVersion::Three),
            (major, minor) => {
                return Err(Error::unsupported("unknown npy format version")
                    .offset(6)
                    .expected("1.0, 2.0 or 3.0")
                    .found(format!("{major}.{minor}")));
            }
        };
        let text_len = match prefix {
            10 => u64::from(u16::from_le_bytes([start[8], start[9]])),
            _ => {
                let start = front(12)?;
                u64::from(u32::from_le_bytes([start[8], start[9], start[10], start[11]]))
            }
        };
        let len = prefix + text_len;
        let bytes = front(len)?;
        let text = &bytes[usize::try_from(prefix).unwrap_or(usize::MAX)..];
        let text = match start[6] {
            3 => String::from_utf8(text.to_vec())
                .map_err(|_| Error::malformed("the array's header is not UTF-8").offset(prefix))?,
            _ => text.iter().copied().map(char::from).collect(),
        };
        let literal = literal::parse(&text, prefix, python, limits.nodes)?;
        Self::of_literal(&literal, len).map_err(|error| error.offset(prefix))
    }

    fn of_literal(literal: &Literal, len: u64) -> Result<Self> {
        let Literal::Dict(items) = literal else { return Err(malformed("a dict")) };
        let (mut descr, mut order, mut shape) = (None, None, None);
        // If a key is repeated, use its last value, as in Python.
        for (key, value) in items {
            match (key, value) {
                (Literal::Text(key), value) if key == "descr" => descr = Some(value),
                (Literal::Text(key), Literal::Bool(fortran)) if key == "fortran_order" => {
                    order = Some(if *fortran { Order::Fortran } else { Order::C });
                }
                (Literal::Text(key), Literal::Tuple(items)) if key == "shape" => {
                    shape = Some(dimensions(items)?);
                }
                _ => {
                    return Err(malformed("only descr, a bool for fortran_order and a tuple for shape"));
                }
            }
        }
        let (Some(descr), Some(order), Some(shape)) = (descr, order, shape) else {
            return Err(malformed("the keys descr, fortran_order and shape"));
        };
        let descr = match descr {
            Literal::Text(descr) => Descr::Element(dtype::parse(descr)?),
            Literal::List(fields) => Descr::Structure(structure::parse(fields)?),
            Literal::Tuple(_) => {
                return Err(Error::unsupported("an array of sub-arrays, which numpy itself cannot load"));
            }
            _ => return Err(malformed("a string or a list for descr")),
        };
        Ok(Self { descr, order, shape, len })
    }

    /// Returns the total number of bytes in the elements. Returns an error if the product of the
    /// dimensions overflows, even if a dimension is zero.
    pub(crate) fn data_len(&self) -> Result<u64> {
        let width = match &self.descr {
            Descr::Element(element) => element.width(),
            Descr::Structure(structure) => Some(structure.width),
        };
        let elements = self
            .shape
            .iter()
            .filter(|&&dim| dim > 0)
            .try_fold(1_u64, |product, &dim| product.checked_mul(dim));
        let len = elements.zip(width).and_then(|(elements, width)| elements.checked_mul(width));
        let len = len.ok_or_else(|| {
            Error::malformed("the array's length does not fit in 64 bits")
                .found(format!("shape {:?}", self.shape))
        })?;
        Ok(if self.shape.contains(&0) { 0 } else { len })
    }
}

fn dimensions(items: &[Literal]) -> Result<Vec<u64>> {
    let dimension = |item: &Literal| match item {
        Literal::Int(value) => u64::try_from(*value).ok(),
        _ => None,
    };
    let shape: Option<Vec<u64>> = items.iter().map(dimension).collect();
    shape.ok_or_else(|| malformed("non-negative 64-bit dimensions").found(format!("{items:?}")))
}

fn malformed(expected: &str) -> Error {
    Error::malformed("the array's header is not the dict that numpy writes").expected(expected)
}

/// Returns the bytes that `np.save` writes before the elements.
pub(crate) fn encode(descr: &str, order: Order, shape: &[u64]) -> Result<Vec<u8>> {
    // With fewer than two dimensions, C order and Fortran order are the same, and numpy records C
    // order.
    let is_fortran = order == Order::Fortran && shape.len() > 1;
    let tuple = match shape {
        [one] => format!("({one},)"),
        many => format!("({})", many.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
    };
    let fortran = if is_fortran { "True" } else { "False" };
    let mut dict = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {tuple}, }}");
    if let Some(dim) = if is_fortran { shape.last() } else { shape.first() } {
        dict.extend(std::iter::repeat_n(' ', GROWTH_DIGITS.saturating_sub(dim.to_string().len())));
    }
    let padded = |prefix: usize| (prefix + dict.len() + 1) / ALIGNMENT * ALIGNMENT + ALIGNMENT - prefix;
    let mut bytes = MAGIC.to_vec();
    match (u16::try_from(padded(10)), u32::try_from(padded(12))) {
        (Ok(len), _) => {
            bytes.extend([1, 0]);
            bytes.extend(len.to_le_bytes());
        }
        (_, Ok(len)) => {
            bytes.extend([2, 0]);
            bytes.extend(len.to_le_bytes());
        }
        _ => return Err(Error::unsupported("the shape is too long for numpy's header")),
    }
    let len = bytes.len() + padded(bytes.len());
    bytes.extend(dict.as_bytes());
    bytes.resize(len - 1, b' ');
    bytes.push(b'\n');
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use tensorferry_sdk::{ByteOrder, Dtype, ErrorKind};

    fn read(bytes: &[u8]) -> Result<Header> {
        Header::read(&Limits::default(), &|len| {
            let part = usize::try_from(len).ok().and_then(|len| bytes.get(..len));
            part.map(<[u8]>::to_vec).ok_or_else(|| Error::malformed("too short"))
        })
    }

    fn of_text(version: u8, text: &str) -> Result<Header> {
        let mut bytes = [&MAGIC[..], &[version, 0]].concat();
        match version {
            1 => bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes()),
            _ => bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes()),
        }
        read(&[&bytes[..], text.as_bytes()].concat())
    }

    #[test]
    fn a_header_is_the_one_that_numpy_writes() {
        let mut expected = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        expected.extend(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
        expected.resize(127, b' ');
        expected.push(b'\n');
        assert_eq!(encode("<f4", Order::C, &[2, 3]).unwrap(), expected);
    }

    #[test]
    fn headers_come_back_in_every_version() {
        for shape in [vec![], vec![0], vec![7], vec![5, 0, 2], vec![1; 64], vec![1; 30_000]] {
            for order in [Order::C, Order::Fortran] {
                let bytes = encode("<c16", order, &shape).unwrap();
                assert_eq!(bytes.len() % ALIGNMENT, 0);
                let header = read(&bytes).unwrap();
                assert_eq!(header.descr, Descr::Element(Element::Number(Dtype::C128, ByteOrder::Little)));
                assert_eq!((&header.shape, header.len), (&shape, bytes.len() as u64));
                assert_eq!(header.order == Order::Fortran, order == Order::Fortran && shape.len() > 1);
            }
        }
    }

    #[test]
    fn what_numpy_takes_is_taken() {
        for text in [
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3)}",
            "{\"shape\": (0x2, 3,), # rows\n 'fortran_order': False, u'descr': 'float32'}",
            "{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3), 'descr': '=f4'}",
        ] {
            let header = of_text(1, text).unwrap();
            assert_eq!(
                header.descr,
                Descr::Element(Element::Number(Dtype::F32, ByteOrder::Little)),
                "{text}"
            );
            assert_eq!(header.shape, [2, 3]);
        }
        let fields = "{'descr': [('\u{3bb}', '<i4'), ('', '|V4'), (('title', 'w'), [('x', '<f8', (2,))])], \
                      'fortran_order': False, 'shape': (4,)}";
        let Descr::Structure(structure) = of_text(3, fields).unwrap().descr else { panic!("no structure") };
        let facts: Vec<_> = structure.fields.iter().map(|f| (&*f.name, f.offset, f.width)).collect();
        assert_eq!((facts, structure.width), (vec![("\u{3bb}", 0, 4), ("w.x", 8, 16)], 24));
    }

    #[test]
    fn what_numpy_refuses_is_refused() {
        for text in [
            "[1, 2]",
            "{'descr': '<f4', 'shape': ()}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (), 'more': 1}",
            "{'descr': '<f4', 'fortran_order': 1, 'shape': ()}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': [3]}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (3)}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (-3,)}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (True,)}",
            "{'descr': '<f4', 'fortran_order': True, 'shape': (18446744073709551616,)}",
            "{'descr': [('a',)], 'fortran_order': True, 'shape': ()}",
            "{'descr': 4, 'fortran_order': True, 'shape': ()}",
        ] {
            assert_eq!(of_text(1, text).unwrap_err().kind(), ErrorKind::Malformed, "{text}");
        }
        assert!(of_text(3, "{'descr': '<f4', 'fortran_order': False, 'shape': (2L,)}").is_err());
        let nested = "{'descr': ('<f4', (2,)), 'fortran_order': True, 'shape': ()}";
        assert_eq!(of_text(1, nested).unwrap_err().kind(), ErrorKind::Unsupported);
        let wraps =
            of_text(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8, 0)}");
        assert_eq!(wraps.unwrap().data_len().unwrap_err().kind(), ErrorKind::Malformed);
    }

    #[test]
    fn a_cut_header_or_another_version_is_a_typed_error() {
        let good = encode("<i2", Order::C, &[3]).unwrap();
        for len in 0..good.len() {
            assert_eq!(read(&good[..len]).unwrap_err().kind(), ErrorKind::Malformed, "{len}");
        }
        for version in [[9, 0], [2, 1], [0, 0]] {
            let mut bytes = good.clone();
            bytes[6..8].copy_from_slice(&version);
            assert_eq!(read(&bytes).unwrap_err().kind(), ErrorKind::Unsupported);
        }
        // A header that declares a length of 4 GiB.
        let mut long = good;
        long[6] = 2;
        long[8..12].copy_from_slice(&[0xff; 4]);
        assert_eq!(read(&long).unwrap_err().kind(), ErrorKind::Malformed);
    }
}
