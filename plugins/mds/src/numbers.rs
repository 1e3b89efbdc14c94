//! Number types, and builders for columns of numbers. As in a shard, the numbers are little-endian
//! and stored without gaps.
//!
//! | Word | Code in an array |
//! |---|---|
//! | `uint8`, `uint16`, `uint32`, `uint64` | 8, 16, 32, 64 |
//! | `int8`, `int16`, `int32`, `int64` | 9, 17, 33, 65 |
//! | `float16`, `float32`, `float64` | 18, 34, 66 |

use half::f16;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use tensorferry_sdk::arrow_array::{Array, ArrayRef, PrimitiveArray};
use tensorferry_sdk::arrow_schema::DataType;

macro_rules! numbers {
    ($($name:ident, $word:literal, $code:literal, $native:ty, $arrow:ty, $zero:expr;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Number { $($name,)* }

        impl Number {
            const ALL: &[Self] = &[$(Self::$name,)*];

            /// Returns the type's name, as it occurs in encoding names.
            pub(crate) fn word(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// Returns the type's code in encoded arrays.
            pub(crate) fn code(self) -> u8 {
                match self { $(Self::$name => $code,)* }
            }

            /// Returns the size of a number in bytes.
            pub(crate) fn width(self) -> usize {
                match self { $(Self::$name => size_of::<$native>(),)* }
            }

            /// Returns the Arrow type of a column with such numbers.
            pub(crate) fn data_type(self) -> DataType {
                match self { $(Self::$name => DataType::$name,)* }
            }

            /// Returns the little-endian bytes of an array of this type, and the number of nulls.
            /// Nulls become zero or NaN.
            pub(crate) fn bytes_of(self, array: &dyn Array) -> (Vec<u8>, u64) {
                let mut bytes = Vec::with_capacity(array.len() * self.width());
                match self {
                    $(Self::$name => {
                        let array = array.as_primitive::<$arrow>();
                        if array.null_count() == 0 {
                            array.values().iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
                        } else {
                            let filled = array.iter().map(|value| value.unwrap_or($zero));
                            filled.for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
                        }
                    })*
                }
                (bytes, array.null_count() as u64)
            }
        }

        /// A builder for a column of numbers.
        #[derive(Debug)]
        pub(crate) enum Numbers { $($name(Vec<$native>),)* }

        impl Numbers {
            pub(crate) fn new(number: Number) -> Self {
                match number { $(Number::$name => Self::$name(Vec::new()),)* }
            }

            pub(crate) fn len(&self) -> usize {
                match self { $(Self::$name(values) => values.len(),)* }
            }

            /// Adds the numbers in `bytes`. An incomplete number at the end is ignored.
            pub(crate) fn extend(&mut self, bytes: &[u8]) {
                match self {
                    $(Self::$name(values) => {
                        let (numbers, _) = bytes.as_chunks::<{ size_of::<$native>() }>();
                        values.extend(numbers.iter().map(|bytes| <$native>::from_le_bytes(*bytes)));
                    })*
                }
            }

            /// Returns all numbers as an array, and clears the builder.
            pub(crate) fn finish(&mut self) -> ArrayRef {
                match self {
                    $(Self::$name(values) => {
                        Arc::new(PrimitiveArray::<$arrow>::new(std::mem::take(values).into(), None))
                    })*
                }
            }
        }
    };
}

numbers! {
    UInt8, "uint8", 8, u8, UInt8Type, 0;
    Int8, "int8", 9, i8, Int8Type, 0;
    UInt16, "uint16", 16, u16, UInt16Type, 0;
    Int16, "int16", 17, i16, Int16Type, 0;
    Float16, "float16", 18, f16, Float16Type, f16::NAN;
    UInt32, "uint32", 32, u32, UInt32Type, 0;
    Int32, "int32", 33, i32, Int32Type, 0;
    Float32, "float32", 34, f32, Float32Type, f32::NAN;
    UInt64, "uint64", 64, u64, UInt64Type, 0;
    Int64, "int64", 65, i64, Int64Type, 0;
    Float64, "float64", 66, f64, Float64Type, f64::NAN;
}

impl Number {
    /// Returns the number type with this name.
    pub(crate) fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|number| number.word() == word)
    }

    /// Returns the number type with this code.
    pub(crate) fn coded(code: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|number| number.code() == code)
    }

    /// Returns the number type of a column with this Arrow type.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        Self::ALL.iter().copied().find(|number| number.data_type() == *data_type)
    }
}
