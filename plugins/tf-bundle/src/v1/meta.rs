//! Reads the list of tensors, which is the value of the empty key. The list contains the dtype and
//! shape of each tensor, and the tensor's slices in this file.

use crate::tensor_proto::read_shape;
use std::ops::Range;
use tensorferry_proto::{Message as _, TensorSliceProto};
use tensorferry_proto_file::{Value, Wire};
use tensorferry_sdk::{Limits, Result};

/// Maximum number of bytes in an encoded slice: 254 dimensions, each with two varints of ten bytes.
const MAX_SLICE_BYTES: u64 = 254 * 32;

/// A tensor in the list.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ListedTensor {
    pub(super) name: Vec<u8>,
    pub(super) dtype: i32,
    pub(super) shape: Vec<u64>,
    pub(super) slices: Vec<TensorSliceProto>,
}

/// Visits every tensor in the list `value`. Errors contain the name `file`.
pub(super) fn each_listed(
    value: &[u8],
    file: &str,
    limits: &Limits,
    visit: &mut dyn FnMut(ListedTensor) -> Result<()>,
) -> Result<()> {
    let mut wire = Wire::of_memory(value, file);
    let whole = wire.whole();
    let meta = wire.last(&whole, 1)?;
    let mut rest = meta.ok_or_else(|| wire.malformed(0, "the checkpoint does not list its tensors"))?;
    while let Some(tensor) = wire.next_of(&mut rest, 1)? {
        visit(read_tensor(&mut wire, tensor, limits)?)?;
    }
    Ok(())
}

fn read_tensor(wire: &mut Wire<'_>, mut rest: Range<u64>, limits: &Limits) -> Result<ListedTensor> {
    let mut listed = ListedTensor::default();
    while let Some(field) = wire.next(&mut rest)? {
        match (field.number, field.value) {
            (1, Value::Bytes(range)) => listed.name = wire.bytes(&range, limits.name_bytes)?,
            (2, Value::Bytes(range)) => read_shape(wire, range, &mut listed.shape)?,
            (3, Value::Varint(number)) => {
                let dtype = i32::try_from(number);
                listed.dtype = dtype.map_err(|_| wire.malformed(field.at, "invalid dtype number"))?;
            }
            (4, Value::Bytes(range)) => {
                let bytes = wire.bytes(&range, MAX_SLICE_BYTES)?;
                let slice = TensorSliceProto::decode(&*bytes);
                let broken = |error| wire.malformed(field.at, "invalid slice").found(error);
                listed.slices.push(slice.map_err(broken)?);
            }
            (1..=4, _) => return Err(wire.wrong_type(field.at)),
            _ => {}
        }
    }
    Ok(listed)
}
