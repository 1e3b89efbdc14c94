//! A list is a repeated field of a `TensorProto` that contains values of one dtype.

use tensorferry_sdk::Dtype;

/// The number of the field, and the encoding of its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) field: u32,
    pub(crate) item: Item,
}

/// The encoding of an item in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Item {
    /// Four unchanged bytes: an f32, or half of a c64.
    Fixed4,
    /// Eight unchanged bytes: an f64, or half of a c128.
    Fixed8,
    /// A varint. The mask selects the bits of the element.
    Varint {
        mask: u64,
    },
    /// A varint that is zero or nonzero.
    Bool,
    /// A byte. The whole list is a single field of type `bytes`.
    Byte,
    Text,
}

impl List {
    /// Returns the list that contains values of a dtype.
    pub(crate) fn of(dtype: Dtype) -> Option<Self> {
        let varint = |bits: u32| Item::Varint { mask: u64::MAX >> (64 - bits) };
        let (field, item) = match dtype {
            Dtype::F32 => (5, Item::Fixed4),
            Dtype::F64 => (6, Item::Fixed8),
            Dtype::I32 | Dtype::QI32 => (7, varint(32)),
            Dtype::I16 | Dtype::U16 | Dtype::QI16 | Dtype::QU16 => (7, varint(16)),
            Dtype::I8 | Dtype::U8 | Dtype::QI8 | Dtype::QU8 => (7, varint(8)),
            Dtype::I4_UNPACKED | Dtype::U4_UNPACKED => (7, varint(4)),
            Dtype::I2_UNPACKED | Dtype::U2_UNPACKED => (7, varint(2)),
            Dtype::STR => (8, Item::Text),
            Dtype::C64 => (9, Item::Fixed4),
            Dtype::I64 => (10, varint(64)),
            Dtype::BOOL => (11, Item::Bool),
            Dtype::C128 => (12, Item::Fixed8),
            Dtype::F16 | Dtype::BF16 => (13, varint(16)),
            Dtype::U32 => (16, varint(32)),
            Dtype::U64 => (17, varint(64)),
            Dtype::F8_E5M2
            | Dtype::F8_E4M3
            | Dtype::F8_E4M3FNUZ
            | Dtype::F8_E4M3B11FNUZ
            | Dtype::F8_E5M2FNUZ
            | Dtype::F4_UNPACKED => (18, Item::Byte),
            _ => return None,
        };
        Some(Self { field, item })
    }
}

impl Item {
    /// Returns the bits of the element that a varint represents.
    pub(crate) fn element(self, varint: u64) -> u64 {
        match self {
            Self::Bool => u64::from(varint != 0),
            Self::Varint { mask } => varint & mask,
            Self::Fixed4 | Self::Fixed8 | Self::Byte | Self::Text => varint,
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn every_dtype_of_tensorflow_has_a_list() {
        for dtype in (0..100).filter_map(crate::dtype::of_number) {
            let name = dtype.info().unwrap().name();
            assert!(List::of(dtype).is_some(), "{name}");
        }
    }
}
