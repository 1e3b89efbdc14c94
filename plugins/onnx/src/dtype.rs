//! ONNX dtypes. Each dtype has a number, and a list field for its values (`TensorProto.DataType`
//! and the comments in onnx.proto).

use tensorferry_sdk::Dtype;

/// A dtype that ONNX defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OnnxDtype {
    pub(crate) number: u64,
    pub(crate) dtype: Dtype,
    /// Number of the list field that can contain values of this dtype.
    pub(crate) field: u32,
    pub(crate) item: WireItem,
}

/// The encoding of a list item in the message, and of the corresponding bytes in the tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireItem {
    /// Four raw bytes: an f32, or half of a complex number.
    Fixed4,
    /// Eight raw bytes.
    Fixed8,
    /// A signed varint from `min` to `max`. In the tensor, it occupies `bytes` bytes.
    Signed {
        min: i64,
        max: i64,
        bytes: usize,
    },
    /// An unsigned varint of at most `max`. In the tensor, it occupies `bytes` bytes.
    Unsigned {
        max: u64,
        bytes: usize,
    },
    Text,
}

/// Numbers of the list fields: float, int32, string, int64, double, uint64.
pub(crate) const LISTS: [u32; 6] = [4, 5, 6, 7, 10, 11];

const F32_DATA: u32 = 4;
const I32_DATA: u32 = 5;
const STRING_DATA: u32 = 6;
const I64_DATA: u32 = 7;
const F64_DATA: u32 = 10;
const U64_DATA: u32 = 11;

/// One byte in int32_data, which may contain several elements of less than a byte.
const BYTE: WireItem = WireItem::Signed { min: 0, max: 0xff, bytes: 1 };
const HALF: WireItem = WireItem::Signed { min: 0, max: 0xffff, bytes: 2 };

const ROWS: [OnnxDtype; 26] = [
    row(1, Dtype::F32, F32_DATA, WireItem::Fixed4),
    row(2, Dtype::U8, I32_DATA, BYTE),
    row(3, Dtype::I8, I32_DATA, WireItem::Signed { min: -0x80, max: 0x7f, bytes: 1 }),
    row(4, Dtype::U16, I32_DATA, HALF),
    row(5, Dtype::I16, I32_DATA, WireItem::Signed { min: -0x8000, max: 0x7fff, bytes: 2 }),
    row(6, Dtype::I32, I32_DATA, WireItem::Signed { min: -0x8000_0000, max: 0x7fff_ffff, bytes: 4 }),
    row(7, Dtype::I64, I64_DATA, WireItem::Signed { min: i64::MIN, max: i64::MAX, bytes: 8 }),
    row(8, Dtype::STR, STRING_DATA, WireItem::Text),
    row(9, Dtype::BOOL, I32_DATA, WireItem::Signed { min: 0, max: 1, bytes: 1 }),
    row(10, Dtype::F16, I32_DATA, HALF),
    row(11, Dtype::F64, F64_DATA, WireItem::Fixed8),
    row(12, Dtype::U32, U64_DATA, WireItem::Unsigned { max: 0xffff_ffff, bytes: 4 }),
    row(13, Dtype::U64, U64_DATA, WireItem::Unsigned { max: u64::MAX, bytes: 8 }),
    row(14, Dtype::C64, F32_DATA, WireItem::Fixed4),
    row(15, Dtype::C128, F64_DATA, WireItem::Fixed8),
    row(16, Dtype::BF16, I32_DATA, HALF),
    row(17, Dtype::F8_E4M3, I32_DATA, BYTE),
    row(18, Dtype::F8_E4M3FNUZ, I32_DATA, BYTE),
    row(19, Dtype::F8_E5M2, I32_DATA, BYTE),
    row(20, Dtype::F8_E5M2FNUZ, I32_DATA, BYTE),
    row(21, Dtype::U4, I32_DATA, BYTE),
    row(22, Dtype::I4, I32_DATA, BYTE),
    row(23, Dtype::F4, I32_DATA, BYTE),
    row(24, Dtype::F8_E8M0, I32_DATA, BYTE),
    row(25, Dtype::U2, I32_DATA, BYTE),
    row(26, Dtype::I2, I32_DATA, BYTE),
];

const fn row(number: u64, dtype: Dtype, field: u32, item: WireItem) -> OnnxDtype {
    OnnxDtype { number, dtype, field, item }
}

/// Returns the dtype with this number.
pub(crate) fn of_number(number: u64) -> Option<OnnxDtype> {
    ROWS.into_iter().find(|row| row.number == number)
}

impl WireItem {
    /// Returns the number of bytes that an item occupies in the tensor. For a string, this is only
    /// the length prefix.
    pub(crate) fn width(self) -> u64 {
        match self {
            Self::Fixed4 => 4,
            Self::Fixed8 | Self::Text => 8,
            Self::Signed { bytes, .. } | Self::Unsigned { bytes, .. } => bytes as u64,
        }
    }

    /// Returns the tensor bytes of a varint, stored in the lowest bytes of the result. Returns
    /// `None` if the varint is out of range.
    pub(crate) fn of_varint(self, value: u64) -> Option<[u8; 8]> {
        let inside = match self {
            Self::Signed { min, max, .. } => {
                // A negative int32 occupies ten bytes, but some writers use five bytes with only 32
                // bits.
                let narrow = u32::try_from(value).ok().filter(|_| max == 0x7fff_ffff);
                let signed = narrow.map_or(value.cast_signed(), |bits| bits.cast_signed().into());
                (min..=max).contains(&signed)
            }
            Self::Unsigned { max, .. } => value <= max,
            Self::Fixed4 | Self::Fixed8 | Self::Text => false,
        };
        inside.then(|| value.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn numbers_are_onnxs_and_items_fill_elements() {
        for (number, row) in (1..).zip(ROWS) {
            let info = row.dtype.info().unwrap();
            assert_eq!(row.number, number);
            if let Some(bytes) = info.element_bytes() {
                assert!(u64::from(bytes).is_multiple_of(row.item.width()), "{}", info.name());
            }
        }
        assert_eq!((of_number(0), of_number(27)), (None, None));
    }

    #[test]
    fn integers_stay_in_their_range() {
        let item = |number: u64| of_number(number).unwrap().item;
        let minus = u64::MAX;
        assert_eq!(item(3).of_varint(minus), Some([0xff; 8]));
        assert_eq!(item(6).of_varint(0xffff_ffff).map(|bytes| bytes[..4] == [0xff; 4]), Some(true));
        for (number, value) in
            [(2, 256), (2, minus), (3, 128), (6, 1 << 32), (9, 2), (10, 0x1_0000), (12, 1 << 32), (21, 256)]
        {
            assert_eq!(item(number).of_varint(value), None, "{number}: {value}");
        }
    }
}
