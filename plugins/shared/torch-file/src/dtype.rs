//! Lists torch's dtypes with their names and legacy storage classes.
//!
//! Source: `torch/storage.py` (`_dtype_to_storage_type_map`, `_new_dtypes`). Tensors of a dtype
//! without a storage class have an untyped storage, and the dtype is an argument of
//! `_rebuild_tensor_v3`.

use tensorferry_sdk::Dtype;

/// A dtype that both torch and the catalog support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TorchDtype {
    pub dtype: Dtype,
    /// Name in the module `torch`, such as `float32`.
    pub name: &'static str,
    /// Storage class in the modules `torch` and `torch.cuda`, such as `FloatStorage`. `None` if
    /// torch stores tensors of this dtype only in untyped storages and rebuilds them with
    /// `_rebuild_tensor_v3`.
    pub storage_class: Option<&'static str>,
    /// Length of one torch element in bytes.
    pub element_bytes: u32,
    /// Whether tensors of this dtype are quantized and have scales (`_rebuild_qtensor`).
    pub quantized: bool,
}

impl TorchDtype {
    /// Returns the table row for a catalog dtype.
    #[must_use]
    pub fn of(dtype: Dtype) -> Option<&'static Self> {
        TABLE.iter().find(|row| row.dtype == dtype)
    }

    /// Returns the table row for a dtype name or alias (`half`, `cfloat`) in the module `torch`.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
        TABLE.iter().find(|row| row.name == name)
    }

    #[must_use]
    pub(crate) fn of_storage_class(class: &str) -> Option<&'static Self> {
        TABLE.iter().find(|row| row.storage_class == Some(class))
    }

    /// Returns whether tensors of this dtype may require a gradient. Only floating-point and
    /// complex tensors may.
    #[must_use]
    pub fn is_differentiable(&self) -> bool {
        ["float", "bfloat", "complex", "bcomplex"].iter().any(|prefix| self.name.starts_with(prefix))
    }

    /// Returns the number of catalog elements in one torch element: 2 for `float4_e2m1fn_x2`.
    #[must_use]
    pub fn packing(&self) -> u64 {
        if self.dtype == Dtype::F4 { 2 } else { 1 }
    }

    /// Converts a torch shape to the catalog's shape. For a packed dtype, the last dimension is
    /// multiplied by the number of elements that torch packs into one. A scalar of a packed dtype
    /// becomes a one-dimensional tensor. Returns `None` on overflow.
    #[must_use]
    pub fn logical_shape(&self, torch: &[u64]) -> Option<Vec<u64>> {
        let mut shape = torch.to_vec();
        if self.packing() > 1 {
            match shape.last_mut() {
                Some(last) => *last = last.checked_mul(self.packing())?,
                None => shape.push(self.packing()),
            }
        }
        Some(shape)
    }

    /// Converts a catalog shape to torch's shape. Returns `None` if the dtype is packed, and the
    /// last dimension is missing or not divisible by the number of packed elements.
    #[must_use]
    pub fn torch_shape(&self, logical: &[u64]) -> Option<Vec<u64>> {
        let mut shape = logical.to_vec();
        if self.packing() > 1 {
            let last = shape.last_mut()?;
            if !last.is_multiple_of(self.packing()) {
                return None;
            }
            *last /= self.packing();
        }
        Some(shape)
    }
}

/// Aliases for dtype names in torch.
const ALIASES: &[(&str, &str)] = &[
    ("double", "float64"),
    ("float", "float32"),
    ("half", "float16"),
    ("long", "int64"),
    ("int", "int32"),
    ("short", "int16"),
    ("cdouble", "complex128"),
    ("cfloat", "complex64"),
    ("chalf", "complex32"),
];

const fn typed(dtype: Dtype, name: &'static str, class: &'static str, element_bytes: u32) -> TorchDtype {
    TorchDtype { dtype, name, storage_class: Some(class), element_bytes, quantized: false }
}

const fn untyped(dtype: Dtype, name: &'static str, element_bytes: u32) -> TorchDtype {
    TorchDtype { dtype, name, storage_class: None, element_bytes, quantized: false }
}

const fn quantized(dtype: Dtype, name: &'static str, class: &'static str, element_bytes: u32) -> TorchDtype {
    TorchDtype { dtype, name, storage_class: Some(class), element_bytes, quantized: true }
}

/// All dtypes that both torch and the catalog support.
const TABLE: &[TorchDtype] = &[
    typed(Dtype::BOOL, "bool", "BoolStorage", 1),
    typed(Dtype::U8, "uint8", "ByteStorage", 1),
    typed(Dtype::I8, "int8", "CharStorage", 1),
    typed(Dtype::I16, "int16", "ShortStorage", 2),
    typed(Dtype::I32, "int32", "IntStorage", 4),
    typed(Dtype::I64, "int64", "LongStorage", 8),
    typed(Dtype::F16, "float16", "HalfStorage", 2),
    typed(Dtype::BF16, "bfloat16", "BFloat16Storage", 2),
    typed(Dtype::F32, "float32", "FloatStorage", 4),
    typed(Dtype::F64, "float64", "DoubleStorage", 8),
    typed(Dtype::C64, "complex64", "ComplexFloatStorage", 8),
    typed(Dtype::C128, "complex128", "ComplexDoubleStorage", 16),
    untyped(Dtype::U16, "uint16", 2),
    untyped(Dtype::U32, "uint32", 4),
    untyped(Dtype::U64, "uint64", 8),
    untyped(Dtype::C32, "complex32", 4),
    untyped(Dtype::BC32, "bcomplex32", 4),
    untyped(Dtype::F8_E4M3, "float8_e4m3fn", 1),
    untyped(Dtype::F8_E5M2, "float8_e5m2", 1),
    untyped(Dtype::F8_E4M3FNUZ, "float8_e4m3fnuz", 1),
    untyped(Dtype::F8_E5M2FNUZ, "float8_e5m2fnuz", 1),
    untyped(Dtype::F8_E8M0, "float8_e8m0fnu", 1),
    untyped(Dtype::F4, "float4_e2m1fn_x2", 1),
    untyped(Dtype::BITS8, "bits8", 1),
    untyped(Dtype::BITS16, "bits16", 2),
    untyped(Dtype::BITS1X8, "bits1x8", 1),
    untyped(Dtype::BITS2X4, "bits2x4", 1),
    untyped(Dtype::BITS4X2, "bits4x2", 1),
    quantized(Dtype::QI8, "qint8", "QInt8Storage", 1),
    quantized(Dtype::QU8, "quint8", "QUInt8Storage", 1),
    quantized(Dtype::QI32, "qint32", "QInt32Storage", 4),
    quantized(Dtype::QU4X2, "quint4x2", "QUInt4x2Storage", 1),
    quantized(Dtype::QU2X4, "quint2x4", "QUInt2x4Storage", 1),
];

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn rows_are_unique_and_have_the_length_of_the_catalogs_dtype() {
        for row in TABLE {
            assert_eq!(TorchDtype::of(row.dtype), Some(row));
            assert_eq!(TorchDtype::named(row.name), Some(row));
            if let Some(class) = row.storage_class {
                assert_eq!(TorchDtype::of_storage_class(class), Some(row));
            }
            assert_eq!(row.dtype.info().unwrap().block_bytes(), row.element_bytes, "{}", row.name);
        }
        assert_eq!(TorchDtype::named("half").unwrap().dtype, Dtype::F16);
        assert_eq!(TorchDtype::of(Dtype::STR), None);
    }

    #[test]
    fn only_continuous_dtypes_are_differentiable() {
        let count = TABLE.iter().filter(|row| row.is_differentiable()).count();
        assert_eq!(count, 14);
    }

    #[test]
    fn a_packed_shape_is_halved_and_doubled() {
        let f4 = TorchDtype::of(Dtype::F4).unwrap();
        assert_eq!(f4.torch_shape(&[2, 6]), Some(vec![2, 3]));
        assert_eq!(f4.torch_shape(&[2, 5]), None);
        assert_eq!(f4.torch_shape(&[]), None);
        assert_eq!(f4.logical_shape(&[2, 3]), Some(vec![2, 6]));
        assert_eq!(f4.logical_shape(&[]), Some(vec![2]));
        assert_eq!(f4.logical_shape(&[u64::MAX]), None);
        assert_eq!(TorchDtype::of(Dtype::F32).unwrap().torch_shape(&[]), Some(vec![]));
    }
}
