//! A `TensorProto` is a tensor that is stored in a message, such as a constant of a graph or a
//! slice of a V1 checkpoint. The tensor may be as long as the file, so ferry reads it in place,
//! field by field.
//!
//! ```text
//! 1  dtype            varint, a DataType
//! 2  tensor_shape     TensorShapeProto { dim = 2 { size = 1 }, unknown_rank = 3 }
//! 4  tensor_content   all elements: row-major, little-endian; strings: n varint lengths, then the bytes
//! otherwise a list, by dtype
//!    5  float_val     f32                     13  half_val      f16 and bf16, their bits
//!    6  double_val    f64                     16  uint32_val    u32
//!    7  int_val       i32 and narrower,       17  uint64_val    u64
//!                     also quantized          18  float8_val    one byte each: the f8 types, f4
//!    8  string_val    strings
//!    9  scomplex_val  c64: real, imaginary
//!   10  int64_val     i64
//!   11  bool_val      booleans
//!   12  dcomplex_val  c128: real, imaginary
//! ```
//!
//! If a list is shorter than the tensor, its last value is repeated. An empty list means that all
//! elements are zeros or empty strings. A nonempty `tensor_content` takes precedence over lists. An
//! integer of fewer than eight bits occupies one byte, whose upper bits are zero.
//!
//! Sources: `tensorflow/core/framework/tensor.proto`, and `tensor.cc` in the same folder for the
//! forms that readers accept (`Tensor::FromProto`, `FromProtoField`). TensorFlow ignores surplus
//! values in a list, but ferry rejects them.

mod emit;
mod list;
mod strings;
mod values;

pub(crate) use values::Values;

use std::ops::Range;
use tensorferry_proto_file::{Value, Wire};
use tensorferry_sdk::Result;

/// Maximum number of dimensions in TensorFlow's `TensorShape` (`tensor_shape.h`).
const MAX_DIMENSIONS: usize = 254;

/// The fields of a `TensorProto` except its values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// TensorFlow's number for the dtype.
    pub(crate) dtype: i32,
    pub(crate) shape: Vec<u64>,
}

impl Header {
    /// Reads the dtype and the shape of a message.
    pub(crate) fn read(wire: &mut Wire<'_>, message: &Range<u64>) -> Result<Self> {
        let mut header = Self::default();
        let mut rest = message.clone();
        while let Some(field) = wire.next(&mut rest)? {
            match (field.number, field.value) {
                (1, Value::Varint(number)) => {
                    header.dtype = i32::try_from(number).map_err(|_| {
                        wire.malformed(field.at, "a tensor has an invalid dtype number").found(number)
                    })?;
                }
                (2, Value::Bytes(range)) => read_shape(wire, range, &mut header.shape)?,
                (1 | 2, _) => return Err(wire.wrong_type(field.at)),
                _ => {}
            }
        }
        Ok(header)
    }
}

/// Appends the dimensions of a `TensorShapeProto`. If the message occurs twice, its lists are
/// concatenated.
pub(crate) fn read_shape(wire: &mut Wire<'_>, mut rest: Range<u64>, shape: &mut Vec<u64>) -> Result<()> {
    while let Some(field) = wire.next(&mut rest)? {
        match (field.number, field.value) {
            (2, Value::Bytes(range)) => {
                if shape.len() == MAX_DIMENSIONS {
                    return Err(wire
                        .malformed(field.at, "a tensor has too many dimensions")
                        .expected(format!("at most {MAX_DIMENSIONS}")));
                }
                shape.push(read_dim(wire, range)?);
            }
            (3, Value::Varint(unknown)) if unknown != 0 => {
                return Err(wire.malformed(field.at, "a tensor with values has no shape"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn read_dim(wire: &mut Wire<'_>, mut rest: Range<u64>) -> Result<u64> {
    let mut size = 0;
    while let Some(field) = wire.next(&mut rest)? {
        if let (1, Value::Varint(value)) = (field.number, field.value) {
            let signed = value.cast_signed();
            size = u64::try_from(signed)
                .map_err(|_| wire.malformed(field.at, "a dimension is negative").found(signed))?;
        }
    }
    Ok(size)
}

#[cfg(test)]
mod tests;
