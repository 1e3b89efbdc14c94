//! Reads `TensorProto` messages. Each message describes a tensor in a model by its dtype, its
//! shape, and the location of its elements.
//!
//! ```text
//! 1  dims             9  raw_data: row-major, little-endian
//! 2  data_type       10  double_data
//! 3  segment         11  uint64_data
//! 4  float_data      13  external_data, each { key = 1, value = 2 }
//! 5  int32_data      14  data_location: 0 in this message, 1 external
//! 6  string_data
//! 7  int64_data
//! 8  name
//! ```

use crate::dtype::{self, LISTS, OnnxDtype};
use crate::external::Location;
use crate::message::{Message, content, varint};
use std::ops::Range;
use tensorferry_proto_file::{Field, Value, Wire};
use tensorferry_sdk::{Dtype, Error, Limits, Result, element_count};

/// Fields that contain elements or their location. New elements replace all of these fields.
pub(crate) const ELEMENT_FIELDS: [u32; 9] = [4, 5, 6, 7, RAW_DATA, 10, 11, EXTERNAL_DATA, DATA_LOCATION];
pub(crate) const RAW_DATA: u32 = 9;
pub(crate) const EXTERNAL_DATA: u32 = 13;
pub(crate) const DATA_LOCATION: u32 = 14;

/// Maximum number of dimensions, which is more than any framework supports.
const MAX_DIMENSIONS: usize = 254;
/// Maximum length in bytes of a key or value in `external_data`. Real keys and values are short
/// names, paths and numbers.
const MAX_ENTRY_BYTES: u64 = 64 << 10;

#[derive(Debug, Clone)]
pub(crate) struct TensorProto {
    pub(crate) row: OnnxDtype,
    pub(crate) dims: Vec<u64>,
    /// Length of the elements in bytes, or 0 for strings.
    pub(crate) len: u64,
    pub(crate) elements: Elements,
}

/// The location of a tensor's elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Elements {
    /// The tensor has no elements.
    Empty,
    /// The elements are in `raw_data`, in tensor layout.
    Raw(Range<u64>),
    /// The elements are in the list field for the dtype.
    Listed,
    /// The elements are in a separate file.
    External(Location),
}

impl TensorProto {
    /// Reads the description of a tensor from its message.
    pub(crate) fn read(wire: &mut Wire<'_>, message: &Message, limits: &Limits) -> Result<Self> {
        let fields = Fields::read(wire, message, limits)?;
        let at = message.start();
        let row = dtype::of_number(fields.data_type).ok_or_else(|| match fields.data_type {
            0 => wire.malformed(at, "a tensor has no dtype (data_type 0)"),
            other => wire
                .located(Error::unsupported("unknown dtype"), at)
                .expected("data_type 1 to 26")
                .found(other),
        })?;
        let count = element_count(&fields.dims).map_err(|error| wire.located(error, at))?;
        let info = row.dtype.info().ok_or_else(|| Error::plugin("the dtype has no description"))?;
        let len = match row.dtype {
            Dtype::STR => 0,
            _ => info.bytes_of(count).map_err(|error| match info.block_elements() {
                1 => wire.located(error, at),
                _ if !count.is_multiple_of(info.block_elements().into()) => {
                    let why = "packed elements do not fill whole bytes, as ferry's packed dtypes require";
                    wire.located(Error::unsupported(why), at)
                        .expected(format!(
                            "a multiple of {} elements of {}",
                            info.block_elements(),
                            info.name()
                        ))
                        .found(format!("shape {:?}", fields.dims))
                }
                _ => wire.located(error, at),
            })?,
        };
        let elements = fields.elements(wire, at, row, count, len)?;
        Ok(Self { row, dims: fields.dims, len, elements })
    }
}

/// The fields of a `TensorProto`, before they are checked.
#[derive(Default)]
struct Fields {
    dims: Vec<u64>,
    data_type: u64,
    raw: Option<Range<u64>>,
    /// Numbers of the list fields that are not empty.
    lists: Vec<u32>,
    location: Location,
    is_external: bool,
}

impl Fields {
    fn read(wire: &mut Wire<'_>, message: &Message, limits: &Limits) -> Result<Self> {
        let mut fields = Self::default();
        let mut rest = message.clone();
        while let Some(field) = rest.next(wire)? {
            match field.number {
                1 => fields.add_dims(wire, &field)?,
                2 => fields.data_type = varint(wire, &field)?,
                3 => {
                    let error = Error::unsupported("the tensor is stored in segments");
                    return Err(wire.located(error, field.at));
                }
                RAW_DATA => fields.raw = Some(content(wire, &field)?),
                EXTERNAL_DATA => {
                    let entry = Message::of_range(content(wire, &field)?);
                    let max = MAX_ENTRY_BYTES.min(limits.header_bytes);
                    let key = entry.text(wire, 1, max)?;
                    let value = entry.text(wire, 2, max)?;
                    fields.location.set(&key, value).map_err(|error| wire.located(error, field.at))?;
                }
                DATA_LOCATION => {
                    fields.is_external = match varint(wire, &field)? {
                        0 => false,
                        1 => true,
                        other => {
                            let error = wire.malformed(field.at, "unknown location of a tensor's elements");
                            return Err(error.expected("data_location 0 or 1").found(other));
                        }
                    }
                }
                number if LISTS.contains(&number) => {
                    // In a list of strings, an empty string is still an element.
                    let is_empty =
                        number != 6 && matches!(&field.value, Value::Bytes(range) if range.is_empty());
                    if !is_empty && !fields.lists.contains(&number) {
                        fields.lists.push(number);
                    }
                }
                _ => {}
            }
        }
        Ok(fields)
    }

    fn add_dims(&mut self, wire: &mut Wire<'_>, field: &Field) -> Result<()> {
        let mut dims = Vec::new();
        match &field.value {
            Value::Varint(dim) => dims.push(*dim),
            Value::Bytes(range) => {
                let mut rest = range.clone();
                while !rest.is_empty() && self.dims.len() + dims.len() <= MAX_DIMENSIONS {
                    dims.push(wire.varint(&mut rest)?);
                }
            }
            _ => return Err(wire.wrong_type(field.at)),
        }
        for dim in dims {
            let signed = dim.cast_signed();
            let dim = u64::try_from(signed)
                .map_err(|_| wire.malformed(field.at, "a dimension is negative").found(signed))?;
            self.dims.push(dim);
        }
        if self.dims.len() > MAX_DIMENSIONS {
            let error = wire.malformed(field.at, "a tensor has too many dimensions");
            return Err(error.expected(format!("at most {MAX_DIMENSIONS}")));
        }
        Ok(())
    }

    /// Returns the location of the elements. Checks that there is only one location and that the
    /// length is correct.
    fn elements(&self, wire: &Wire<'_>, at: u64, row: OnnxDtype, count: u64, len: u64) -> Result<Elements> {
        let raw = self.raw.clone().filter(|raw| !raw.is_empty());
        let places = self.lists.len() + usize::from(raw.is_some()) + usize::from(self.is_external);
        if places > 1 {
            return Err(wire
                .malformed(at, "the elements of a tensor are in several places")
                .found(format!("{places} fields")));
        }
        if self.is_external {
            let file = self.location.file.as_deref().unwrap_or_default();
            if file.is_empty() {
                return Err(wire.malformed(at, "a tensor with external data does not specify the file"));
            }
            if row.dtype == Dtype::STR {
                return Err(wire.malformed(at, "strings cannot be external data"));
            }
            return Ok(Elements::External(self.location.clone()));
        }
        let wrong = |found: u64| {
            wire.malformed(at, "the length of a tensor's elements does not match its dtype and shape")
                .expected(format!("{len} bytes"))
                .found(format!("{found} bytes"))
        };
        match (raw, self.lists.first()) {
            (Some(_), _) if row.dtype == Dtype::STR => {
                Err(wire.malformed(at, "strings cannot be in raw_data"))
            }
            (Some(raw), _) if raw.end - raw.start == len => Ok(Elements::Raw(raw)),
            (Some(raw), _) => Err(wrong(raw.end - raw.start)),
            (None, Some(&field)) if field != row.field => Err(wire
                .malformed(at, "the values of a tensor are in the list of a different dtype")
                .expected(format!("field {}", row.field))
                .found(format!("field {field}"))),
            (None, Some(_)) => Ok(Elements::Listed),
            (None, None) if count == 0 => Ok(Elements::Empty),
            (None, None) if row.dtype == Dtype::STR => {
                Err(wire.malformed(at, "the strings of a tensor are missing").expected(count).found(0))
            }
            (None, None) => Err(wrong(0)),
        }
    }
}
