//! A `SparseTensorProto` contains the nonzero values of a tensor, their positions, and the dense
//! shape. The reader adds these parts as `name.values`, `name.indices` and `name.shape`.

use crate::message::{Message, varint};
use crate::walk::FoundTensor;
use tensorferry_proto_file::{Value, Wire};
use tensorferry_sdk::{Dtype, Result};

/// Maximum number of dimensions, which is more than any framework supports.
const MAX_DIMENSIONS: usize = 254;

#[derive(Debug, Clone)]
pub(crate) struct Sparse {
    pub(crate) values: FoundTensor,
    pub(crate) indices: FoundTensor,
    /// Name of the tensor that contains the shape.
    pub(crate) shape_name: String,
    pub(crate) shape: Vec<u64>,
}

impl Sparse {
    /// Reads the parts of the sparse tensor in `message`.
    pub(crate) fn read(wire: &mut Wire<'_>, name: &str, message: &Message) -> Result<Self> {
        let mut part = |number: u32, word: &str| -> Result<FoundTensor> {
            let part = message.message(wire, number)?;
            if part.exists() {
                return Ok(FoundTensor { name: format!("{name}.{word}"), message: part });
            }
            Err(wire
                .malformed(message.start(), "a part of a sparse tensor is missing")
                .expected(word)
                .tensor(name))
        };
        let (values, indices) = (part(1, "values")?, part(2, "indices")?);
        let shape = shape(wire, message).map_err(|error| error.tensor(name))?;
        Ok(Self { values, indices, shape_name: format!("{name}.shape"), shape })
    }

    /// Returns whether the values and indices have matching shapes, and the indices have the right
    /// dtype.
    pub(crate) fn fits(&self, values: &[u64], indices: &[u64], dtype: Dtype) -> bool {
        let rank = self.shape.len() as u64;
        let counts = match (values, indices) {
            ([count], [places]) => count == places,
            ([count], [places, axes]) => count == places && *axes == rank,
            _ => false,
        };
        counts && dtype == Dtype::I64
    }

    /// Returns the shape as the bytes of an I64 tensor.
    pub(crate) fn shape_bytes(&self) -> Vec<u8> {
        self.shape.iter().flat_map(|dim| dim.to_le_bytes()).collect()
    }
}

fn shape(wire: &mut Wire<'_>, message: &Message) -> Result<Vec<u64>> {
    let mut dims = Vec::new();
    let mut rest = message.clone();
    while let Some(field) = rest.next(wire)? {
        if field.number != 3 {
            continue;
        }
        match &field.value {
            Value::Bytes(range) => {
                let mut rest = range.clone();
                while !rest.is_empty() && dims.len() <= MAX_DIMENSIONS {
                    dims.push(wire.varint(&mut rest)?);
                }
            }
            _ => dims.push(varint(wire, &field)?),
        }
        if dims.len() > MAX_DIMENSIONS || dims.iter().any(|&dim| dim.cast_signed() < 0) {
            return Err(wire.malformed(field.at, "a sparse tensor has an invalid shape"));
        }
    }
    Ok(dims)
}
