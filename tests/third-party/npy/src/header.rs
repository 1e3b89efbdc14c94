//! A header says what the bytes behind it are: dtype, order and shape.
//!
//! | offset     | bytes                     | what                                                  |
//! |------------|---------------------------|-------------------------------------------------------|
//! | 0          | 6                         | `\x93NUMPY`                                           |
//! | 6          | 2                         | version: 1.0, 2.0 or 3.0                              |
//! | 8          | 2 (1.0) or 4 (2.0, 3.0)   | length of the dict, little-endian                     |
//! | 10 or 12   | that many                 | the dict, spaces, `\n`: a multiple of 64 bytes in all |
//! | after that | as the dict says          | the elements, in C or Fortran order                   |
//!
//! Version 2.0 has room for a longer dict, 3.0 writes it in UTF-8 instead of Latin-1. Source:
//! `numpy/lib/_format_impl.py`, "Format Version 1.0" to "3.0" and `_write_array_header`.

use crate::{dtype, literal};
use tensorferry_sdk::{ByteOrder, Dtype, Error, Order, Result, element_count};

/// What an array file begins with.
pub(crate) const MAGIC: &[u8; 6] = b"\x93NUMPY";

/// numpy aligns the elements to this.
const ALIGNMENT: usize = 64;
/// numpy leaves room for the growing dimension to be written over with this many digits.
const GROWTH_DIGITS: usize = 21;

/// What a header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) dtype: Dtype,
    pub(crate) byte_order: ByteOrder,
    pub(crate) order: Order,
    pub(crate) shape: Vec<u64>,
}

impl Header {
    /// Reads a header and tells its length. `front` gives the first bytes of the array, as many as
    /// it is asked for, or fails: a claimed length is never allocated before it is known to be there.
    ///
    /// # Errors
    /// Malformed or unsupported; else whatever `front` gives.
    pub(crate) fn read(front: &dyn Fn(u64) -> Result<Vec<u8>>) -> Result<(Self, u64)> {
        let start = front(12)?;
        if !start.starts_with(MAGIC) {
            return Err(Error::malformed("not an array of numpy's").offset(0).expected("\\x93NUMPY"));
        }
        let dict_offset: u32 = match (start[6], start[7]) {
            (1, 0) => 10,
            (2 | 3, 0) => 12,
            (major, minor) => {
                return Err(Error::unsupported("a version of the array format that is not known here")
                    .offset(6)
                    .expected("1.0, 2.0 or 3.0")
                    .found(format!("{major}.{minor}")));
            }
        };
        let wide = u32::from_le_bytes([start[8], start[9], start[10], start[11]]);
        let dict_len = if dict_offset == 10 { wide & 0xffff } else { wide };
        let len = u64::from(dict_offset) + u64::from(dict_len);
        let header = front(len)?;
        let dict = literal::parse(&header[dict_offset as usize..], dict_offset.into())?;
        let (dtype, byte_order) = dtype::parse(dict.descr)?;
        let order = if dict.fortran_order { Order::Fortran } else { Order::C };
        Ok((Self { dtype, byte_order, order, shape: dict.shape }, len))
    }

    /// The header's bytes, as `numpy.save` writes them; nothing, if numpy lacks the dtype.
    pub(crate) fn to_bytes(&self) -> Option<Vec<u8>> {
        // Without a second dimension both orders are one, and numpy calls it C.
        let is_fortran = self.order == Order::Fortran && self.shape.len() > 1;
        let shape = match &*self.shape {
            [one] => format!("({one},)"),
            many => format!("({})", many.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")),
        };
        let mut dict = format!(
            "{{'descr': '{}', 'fortran_order': {}, 'shape': {shape}, }}",
            dtype::descr(self.dtype, self.byte_order)?,
            if is_fortran { "True" } else { "False" },
        );
        let growing = if is_fortran { self.shape.last() } else { self.shape.first() };
        if let Some(dim) = growing {
            let room = GROWTH_DIGITS.saturating_sub(dim.to_string().len());
            dict.extend(std::iter::repeat_n(' ', room));
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
            _ => return None,
        }
        let len = bytes.len() + padded(bytes.len());
        bytes.extend(dict.as_bytes());
        bytes.resize(len - 1, b' ');
        bytes.push(b'\n');
        Some(bytes)
    }

    /// Bytes of the elements.
    ///
    /// # Errors
    /// Malformed, if they do not fit 64 bits.
    pub(crate) fn data_len(&self) -> Result<u64> {
        let info = self.dtype.info().ok_or_else(|| Error::plugin("numpy's dtypes are all built in"))?;
        info.bytes_of(element_count(&self.shape)?)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use tensorferry_sdk::ErrorKind;

    fn read(bytes: &[u8]) -> Result<(Header, u64)> {
        Header::read(&|len| {
            let part = usize::try_from(len).ok().and_then(|len| bytes.get(..len));
            part.map(<[u8]>::to_vec).ok_or_else(|| Error::malformed("too short"))
        })
    }

    #[test]
    fn a_header_is_the_one_that_numpy_writes() {
        let header =
            Header { dtype: Dtype::F32, byte_order: ByteOrder::Little, order: Order::C, shape: vec![2, 3] };
        let mut expected = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        expected.extend(b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
        expected.resize(127, b' ');
        expected.push(b'\n');
        assert_eq!(header.to_bytes().unwrap(), expected);
    }

    #[test]
    fn headers_come_back_in_every_version() {
        for shape in [vec![], vec![0], vec![7], vec![5, 0, 2], vec![1; 64], vec![1; 30_000]] {
            let header = Header { dtype: Dtype::C128, byte_order: ByteOrder::Big, order: Order::C, shape };
            let bytes = header.to_bytes().unwrap();
            assert_eq!(bytes.len() % ALIGNMENT, 0);
            assert_eq!(read(&bytes).unwrap(), (header.clone(), bytes.len() as u64));
            if bytes[6] == 1 {
                let mut version_3 = b"\x93NUMPY\x03\x00".to_vec();
                version_3.extend(u32::try_from(bytes.len() - 10).unwrap().to_le_bytes());
                version_3.extend(&bytes[10..]);
                assert_eq!(read(&version_3).unwrap(), (header, version_3.len() as u64));
            }
        }
    }

    #[test]
    fn bad_headers_are_typed_errors() {
        let good =
            Header { dtype: Dtype::I16, byte_order: ByteOrder::Little, order: Order::C, shape: vec![3] }
                .to_bytes()
                .unwrap();
        for len in 0..good.len() {
            assert_eq!(read(&good[..len]).unwrap_err().kind(), ErrorKind::Malformed, "{len}");
        }
        let mut version = good.clone();
        version[6] = 9;
        assert_eq!(read(&version).unwrap_err().kind(), ErrorKind::Unsupported);
        // A dict of 4 GiB that is not there.
        let mut long = good;
        long[6] = 2;
        long[8..12].copy_from_slice(&[0xff; 4]);
        assert_eq!(read(&long).unwrap_err().kind(), ErrorKind::Malformed);
    }
}
