//! Converts between dtypes and the numbers that represent them in TensorFlow's `DataType`.
//!
//! TensorFlow stores an element of a sub-byte type in a whole byte. ferry represents these types as
//! the `*_UNPACKED` dtypes. A reference type (number 101 or above) is treated as the dtype that it
//! refers to. Resources and variants are not numeric and have no dtype.

use tensorferry_proto::DataType;
use tensorferry_sdk::Dtype;

/// Returns the dtype for TensorFlow's number, or `None` if no tensor can have this dtype.
pub(crate) fn of_number(number: i32) -> Option<Dtype> {
    let number = if number > 100 { number - 100 } else { number };
    let data_type = DataType::try_from(number).ok()?;
    TABLE.iter().find(|(known, _)| *known == data_type).map(|(_, dtype)| *dtype)
}

/// Returns TensorFlow's number for a dtype, if it has one.
pub(crate) fn number(dtype: Dtype) -> Option<i32> {
    TABLE.iter().find(|(_, known)| *known == dtype).map(|(data_type, _)| (*data_type).into())
}

/// Returns TensorFlow's name for a number, such as `DT_FLOAT`, or the number itself if it has no
/// name.
pub(crate) fn name(number: i32) -> String {
    DataType::try_from(number).map_or_else(|_| number.to_string(), |known| known.as_str_name().to_owned())
}

const TABLE: [(DataType, Dtype); 31] = [
    (DataType::DtFloat, Dtype::F32),
    (DataType::DtDouble, Dtype::F64),
    (DataType::DtInt32, Dtype::I32),
    (DataType::DtUint8, Dtype::U8),
    (DataType::DtInt16, Dtype::I16),
    (DataType::DtInt8, Dtype::I8),
    (DataType::DtString, Dtype::STR),
    (DataType::DtComplex64, Dtype::C64),
    (DataType::DtInt64, Dtype::I64),
    (DataType::DtBool, Dtype::BOOL),
    (DataType::DtQint8, Dtype::QI8),
    (DataType::DtQuint8, Dtype::QU8),
    (DataType::DtQint32, Dtype::QI32),
    (DataType::DtBfloat16, Dtype::BF16),
    (DataType::DtQint16, Dtype::QI16),
    (DataType::DtQuint16, Dtype::QU16),
    (DataType::DtUint16, Dtype::U16),
    (DataType::DtComplex128, Dtype::C128),
    (DataType::DtHalf, Dtype::F16),
    (DataType::DtUint32, Dtype::U32),
    (DataType::DtUint64, Dtype::U64),
    (DataType::DtFloat8E5m2, Dtype::F8_E5M2),
    (DataType::DtFloat8E4m3fn, Dtype::F8_E4M3),
    (DataType::DtFloat8E4m3fnuz, Dtype::F8_E4M3FNUZ),
    (DataType::DtFloat8E4m3b11fnuz, Dtype::F8_E4M3B11FNUZ),
    (DataType::DtFloat8E5m2fnuz, Dtype::F8_E5M2FNUZ),
    (DataType::DtInt4, Dtype::I4_UNPACKED),
    (DataType::DtUint4, Dtype::U4_UNPACKED),
    (DataType::DtInt2, Dtype::I2_UNPACKED),
    (DataType::DtUint2, Dtype::U2_UNPACKED),
    (DataType::DtFloat4E2m1fn, Dtype::F4_UNPACKED),
];
