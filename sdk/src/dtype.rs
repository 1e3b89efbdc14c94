//! A dtype defines the size of an element in bytes, and the groups of bytes to reverse if the byte
//! order differs.
//!
//! Dtype names are the same as in safetensors, with additional names for dtypes that safetensors
//! does not have. A format can declare any other dtype by name ([`DtypeInfo::extension`]). The
//! catalog then assigns an id to the declared dtype.

use crate::{Error, Result};
use std::borrow::Cow;

/// The id of a dtype, which is either built in or declared in a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dtype(pub(crate) u32);

/// The first id of extension dtypes.
const FIRST_EXTENSION: u32 = 0x8000_0000;

impl Dtype {
    /// Returns the dtype's id in the ABI.
    #[must_use]
    pub fn id(self) -> u32 {
        self.0
    }

    /// Returns the dtype with this id. This function is the inverse of [`id`](Self::id). The
    /// catalog does not necessarily contain the dtype.
    #[must_use]
    pub fn from_id(id: u32) -> Self {
        Self(id)
    }

    /// Returns the dtype at `index` of the catalog's extension table.
    pub(crate) fn extension(index: usize) -> Option<Self> {
        Some(Self(u32::try_from(index).ok()?.checked_add(FIRST_EXTENSION)?))
    }

    /// Returns the index in the catalog's extension table, or `None` for a built-in dtype.
    pub(crate) fn extension_index(self) -> Option<usize> {
        usize::try_from(self.0.checked_sub(FIRST_EXTENSION)?).ok()
    }

    /// Returns the properties of a built-in dtype, or `None` for an extension dtype, whose
    /// properties are in a catalog.
    #[must_use]
    pub fn info(self) -> Option<&'static DtypeInfo> {
        let index = usize::try_from(self.0).ok()?.checked_sub(1)?;
        BUILT_IN.get(index)
    }

    /// Returns the built-in dtype with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let index = BUILT_IN.iter().position(|info| info.name == name)?;
        Some(Self(u32::try_from(index).ok()? + 1))
    }

    /// Iterates over all built-in dtypes.
    pub fn built_in() -> impl Iterator<Item = Self> {
        (1..).map(Self).take(BUILT_IN.len())
    }
}

/// The memory layout of a dtype's elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DtypeInfo {
    name: Cow<'static, str>,
    block_elements: u32,
    block_bytes: u32,
    swap_unit: u32,
}

impl DtypeInfo {
    /// Creates a dtype that is not built in. A block of `block_elements` elements takes
    /// `block_bytes` bytes. For example, GGUF's Q4_0 stores 32 elements in 18 bytes. If byte orders
    /// differ, groups of `swap_unit` bytes are reversed. A `swap_unit` of 1 means that no bytes are
    /// reversed. If a built-in dtype has the same name and layout, the result is that dtype. A
    /// plugin's declaration therefore remains valid when a later SDK adds the dtype.
    ///
    /// # Errors
    /// Returns a usage error if a number is zero or `swap_unit` does not divide the block size.
    /// Returns a usage error if the name is empty, is longer than 64 bytes, or is the name of a
    /// built-in dtype with a different layout.
    pub fn extension(name: &str, block_elements: u32, block_bytes: u32, swap_unit: u32) -> Result<Self> {
        if let Some(built_in) = Dtype::named(name).and_then(Dtype::info)
            && built_in.has_sizes(block_elements, block_bytes, swap_unit)
        {
            return Ok(built_in.clone());
        }
        let sane = !name.is_empty()
            && name.len() <= 64
            && Dtype::named(name).is_none()
            && block_elements > 0
            && block_bytes > 0
            && swap_unit > 0
            && block_bytes.is_multiple_of(swap_unit);
        if !sane {
            return Err(Error::usage(format!(
                "invalid dtype: {name:?} with {block_elements} elements in {block_bytes} bytes and swap unit {swap_unit}"
            )));
        }
        Ok(Self { name: Cow::Owned(name.to_owned()), block_elements, block_bytes, swap_unit })
    }

    fn has_sizes(&self, block_elements: u32, block_bytes: u32, swap_unit: u32) -> bool {
        (self.block_elements, self.block_bytes, self.swap_unit) == (block_elements, block_bytes, swap_unit)
    }

    /// Returns the name of the dtype, which is unique. Names of built-in dtypes are in upper case.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the number of elements in a block of [`block_bytes`](Self::block_bytes) bytes.
    #[must_use]
    pub fn block_elements(&self) -> u32 {
        self.block_elements
    }

    /// Returns the number of bytes in a block. Returns 0 for strings, whose lengths do not depend
    /// on the shape.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Returns the number of bytes to reverse as a unit if byte orders differ. For complex numbers,
    /// this is half an element.
    #[must_use]
    pub fn swap_unit(&self) -> u32 {
        self.swap_unit
    }

    /// Returns whether the length in bytes depends on the values, as for [`Dtype::STR`].
    #[must_use]
    pub fn is_variable(&self) -> bool {
        self.block_bytes == 0
    }

    /// Returns the number of bytes in an element, or `None` if elements are not whole bytes.
    #[must_use]
    pub fn element_bytes(&self) -> Option<u32> {
        (self.block_elements == 1 && self.block_bytes > 0).then_some(self.block_bytes)
    }

    /// Returns the length in bytes of `elements` contiguous elements.
    ///
    /// # Errors
    /// Returns a malformed-data error if the elements do not fill whole blocks or the length
    /// overflows, or an unsupported error for strings.
    pub fn bytes_of(&self, elements: u64) -> Result<u64> {
        if self.is_variable() {
            return Err(Error::unsupported(format!("{} has no fixed length", self.name)));
        }
        if self.block_elements == 1 {
            return elements.checked_mul(self.block_bytes.into()).ok_or_else(overflow);
        }
        if !elements.is_multiple_of(self.block_elements.into()) {
            return Err(Error::malformed("packed elements do not fill whole bytes")
                .expected(format!("a multiple of {} elements of {}", self.block_elements, self.name))
                .found(elements));
        }
        (elements / u64::from(self.block_elements)).checked_mul(self.block_bytes.into()).ok_or_else(overflow)
    }
}

/// Returns the number of elements in a tensor with this shape. A tensor with an empty shape has one
/// element.
///
/// # Errors
/// Returns a malformed-data error if the number of elements exceeds 64 bits.
pub fn element_count(shape: &[u64]) -> Result<u64> {
    // If any dimension is zero, the product is zero, even if the product of the other dimensions
    // would overflow.
    if shape.contains(&0) {
        return Ok(0);
    }
    shape
        .iter()
        .try_fold(1_u64, |product, &dim| product.checked_mul(dim))
        .ok_or_else(|| overflow().found(format!("shape {shape:?}")))
}

fn overflow() -> Error {
    Error::malformed("the length of the tensor exceeds 64 bits")
}

macro_rules! built_in {
    ($($(#[$doc:meta])* $constant:ident = $id:literal, $name:literal, $elements:literal in $bytes:literal, swap $swap:literal;)*) => {
        impl Dtype {
            $( $(#[$doc])* pub const $constant: Self = Self($id); )*
        }
        const BUILT_IN: &[DtypeInfo] = &[ $(
            DtypeInfo {
                name: Cow::Borrowed($name),
                block_elements: $elements,
                block_bytes: $bytes,
                swap_unit: $swap,
            },
        )* ];
    };
}

// The ids are part of the ABI. Append new dtypes at the end, and never change an id. A unit test
// checks that the ids match the rows.
built_in! {
    /// Boolean in one byte, either 0 or 1.
    BOOL = 1, "BOOL", 1 in 1, swap 1;
    /// Unsigned 8-bit integer.
    U8 = 2, "U8", 1 in 1, swap 1;
    /// Signed 8-bit integer.
    I8 = 3, "I8", 1 in 1, swap 1;
    /// Unsigned 16-bit integer.
    U16 = 4, "U16", 1 in 2, swap 2;
    /// Signed 16-bit integer.
    I16 = 5, "I16", 1 in 2, swap 2;
    /// Unsigned 32-bit integer.
    U32 = 6, "U32", 1 in 4, swap 4;
    /// Signed 32-bit integer.
    I32 = 7, "I32", 1 in 4, swap 4;
    /// Unsigned 64-bit integer.
    U64 = 8, "U64", 1 in 8, swap 8;
    /// Signed 64-bit integer.
    I64 = 9, "I64", 1 in 8, swap 8;
    /// IEEE 754 binary16 floating point.
    F16 = 10, "F16", 1 in 2, swap 2;
    /// bfloat16: the upper half of an F32.
    BF16 = 11, "BF16", 1 in 2, swap 2;
    /// IEEE 754 binary32 floating point.
    F32 = 12, "F32", 1 in 4, swap 4;
    /// IEEE 754 binary64 floating point.
    F64 = 13, "F64", 1 in 8, swap 8;
    /// Complex number that consists of two F16: the real part, then the imaginary part.
    C32 = 14, "C32", 1 in 4, swap 2;
    /// Complex number that consists of two F32.
    C64 = 15, "C64", 1 in 8, swap 4;
    /// Complex number that consists of two F64 values.
    C128 = 16, "C128", 1 in 16, swap 8;
    /// Complex number that consists of two BF16.
    BC32 = 17, "BC32", 1 in 4, swap 2;
    /// OCP E4M3 floating point, without infinities.
    F8_E4M3 = 18, "F8_E4M3", 1 in 1, swap 1;
    /// OCP E5M2 floating point.
    F8_E5M2 = 19, "F8_E5M2", 1 in 1, swap 1;
    /// E4M3 floating point without negative zero.
    F8_E4M3FNUZ = 20, "F8_E4M3FNUZ", 1 in 1, swap 1;
    /// E5M2 floating point without negative zero.
    F8_E5M2FNUZ = 21, "F8_E5M2FNUZ", 1 in 1, swap 1;
    /// E4M3 floating point with an exponent bias of 11.
    F8_E4M3B11FNUZ = 22, "F8_E4M3B11FNUZ", 1 in 1, swap 1;
    /// Power of two that stores only an exponent, used for OCP MX scales.
    F8_E8M0 = 23, "F8_E8M0", 1 in 1, swap 1;
    /// OCP E2M3 floating point, with four elements in three bytes.
    F6_E2M3 = 24, "F6_E2M3", 4 in 3, swap 1;
    /// OCP E3M2 floating point, with four elements in three bytes.
    F6_E3M2 = 25, "F6_E3M2", 4 in 3, swap 1;
    /// OCP E2M1 floating point, with two elements per byte. The first element is in the low nibble.
    F4 = 26, "F4", 2 in 1, swap 1;
    /// Signed 4-bit integer, with two elements per byte. The first element is in the low nibble.
    I4 = 27, "I4", 2 in 1, swap 1;
    /// Unsigned 4-bit integer, with two elements per byte. The first element is in the low nibble.
    U4 = 28, "U4", 2 in 1, swap 1;
    /// Signed 2-bit integer, with four elements per byte. The first element is in the lowest bits.
    I2 = 29, "I2", 4 in 1, swap 1;
    /// Unsigned 2-bit integer, with four elements per byte. The first element is in the lowest
    /// bits.
    U2 = 30, "U2", 4 in 1, swap 1;
    /// TensorFlow's int4, with one element per byte, in the low nibble.
    I4_UNPACKED = 31, "I4_UNPACKED", 1 in 1, swap 1;
    /// TensorFlow's uint4, with one element per byte.
    U4_UNPACKED = 32, "U4_UNPACKED", 1 in 1, swap 1;
    /// TensorFlow's int2, with one element per byte.
    I2_UNPACKED = 33, "I2_UNPACKED", 1 in 1, swap 1;
    /// TensorFlow's uint2, with one element per byte.
    U2_UNPACKED = 34, "U2_UNPACKED", 1 in 1, swap 1;
    /// TensorFlow's float4_e2m1fn, with one element per byte.
    F4_UNPACKED = 35, "F4_UNPACKED", 1 in 1, swap 1;
    /// Quantized signed 8-bit integer.
    QI8 = 36, "QI8", 1 in 1, swap 1;
    /// Quantized unsigned 8-bit integer.
    QU8 = 37, "QU8", 1 in 1, swap 1;
    /// Quantized signed 16-bit integer.
    QI16 = 38, "QI16", 1 in 2, swap 2;
    /// Quantized unsigned 16-bit integer.
    QU16 = 39, "QU16", 1 in 2, swap 2;
    /// Quantized signed 32-bit integer.
    QI32 = 40, "QI32", 1 in 4, swap 4;
    /// torch's quint4x2, with two elements per byte.
    QU4X2 = 41, "QU4x2", 2 in 1, swap 1;
    /// torch's quint2x4, with four elements per byte.
    QU2X4 = 42, "QU2x4", 4 in 1, swap 1;
    /// torch's bits8: 8 bits without a numeric meaning.
    BITS8 = 43, "BITS8", 1 in 1, swap 1;
    /// torch's bits16: 16 bits without a numeric meaning.
    BITS16 = 44, "BITS16", 1 in 2, swap 2;
    /// torch's bits1x8. Shapes count bytes, as in torch.
    BITS1X8 = 45, "BITS1x8", 1 in 1, swap 1;
    /// torch's bits2x4. Shapes count bytes, as in torch.
    BITS2X4 = 46, "BITS2x4", 1 in 1, swap 1;
    /// torch's bits4x2. Shapes count bytes, as in torch.
    BITS4X2 = 47, "BITS4x2", 1 in 1, swap 1;
    /// Strings. Each element consists of its length as a little-endian u64, followed by its bytes.
    STR = 48, "STR", 1 in 0, swap 1;
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn ids_follow_the_rows() {
        for (row, dtype) in Dtype::built_in().enumerate() {
            let info = dtype.info().unwrap();
            assert_eq!(dtype.id() as usize, row + 1);
            assert_eq!(Dtype::named(info.name()), Some(dtype));
        }
        assert_eq!(Dtype::STR.id() as usize, BUILT_IN.len());
    }

    #[test]
    fn packed_lengths_are_whole_bytes() {
        let f6 = Dtype::F6_E2M3.info().unwrap();
        assert_eq!(f6.bytes_of(8).unwrap(), 6);
        assert!(f6.bytes_of(2).is_err());
    }

    #[test]
    fn counts_are_checked() {
        assert_eq!(element_count(&[]).unwrap(), 1);
        assert_eq!(element_count(&[u64::MAX, 0, u64::MAX]).unwrap(), 0);
        assert!(element_count(&[1 << 40, 1 << 40]).is_err());
        assert!(Dtype::F64.info().unwrap().bytes_of(u64::MAX / 4).is_err());
    }
}
