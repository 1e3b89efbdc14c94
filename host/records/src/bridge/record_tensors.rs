//! Converts records to tensors if each record contains one tensor. The step `records:tensor`
//! creates such records.

use super::spool::{Spooled, SpooledTensor, Spools};
use super::tensor_records::{DATA, DTYPE, NAME, SHAPE};
use crate::cast::cast;
use crate::flow::Flow;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use std::collections::HashSet;
use std::fs::File;
use tensorferry_core::context::session::Session;
use tensorferry_sdk::{Context, Dtype, Error, Result, arrow_array, arrow_schema, element_count};
use tensorferry_tensors::stored::Spill;

/// Returns the tensors in a flow's records, and the files that contain their bytes.
pub(super) fn tensors(
    flow: &mut dyn Flow,
    spill: &Spill,
    session: &Session,
) -> Result<(Vec<File>, Vec<SpooledTensor>)> {
    let spools = Spools::new(spill, 1, session);
    let mut spool = spools.open();
    let mut tensors: Vec<SpooledTensor> = Vec::new();
    let mut names = HashSet::new();
    while let Some(batch) = flow.next()? {
        session.check_cancelled()?;
        let records = TensorColumns::of(&batch)?;
        for row in 0..batch.num_rows() {
            let record = tensors.len() as u64;
            let (mut tensor, data) = records.tensor(row).map_err(|error| error.record(record))?;
            if !names.insert(tensor.name.clone()) {
                return Err(Error::malformed("two records have the same name")
                    .record(record)
                    .tensor(tensor.name));
            }
            if record >= session.limits().tensors {
                return Err(Error::limit("too many tensors")
                    .expected(format!("at most {}", session.limits().tensors)));
            }
            tensor.bytes.offset = spool.len();
            spool.push(data)?;
            tensors.push(tensor);
        }
    }
    let Spooled { file, offset, .. } = spool.finish()?;
    for SpooledTensor { bytes, .. } in &mut tensors {
        *bytes = Spooled { file, offset: offset + bytes.offset, ..*bytes };
    }
    Ok((spools.into_files(), tensors))
}

struct TensorColumns {
    names: ArrayRef,
    dtypes: ArrayRef,
    shapes: ArrayRef,
    data: ArrayRef,
}

impl TensorColumns {
    fn of(batch: &RecordBatch) -> Result<Self> {
        let bytes = as_type(batch, DATA, &DataType::LargeBinary)?;
        if matches!(
            batch.column_by_name(DATA).map(|data| data.data_type()),
            Some(DataType::Utf8 | DataType::LargeUtf8)
        ) {
            return Err(Error::usage("the data of tensors in records must be bytes")
                .column(DATA)
                .found("text"));
        }
        let item = std::sync::Arc::new(arrow_schema::Field::new_list_field(DataType::Int64, true));
        let shapes = match batch.column_by_name(SHAPE).map(|shapes| shapes.data_type().clone()) {
            // After a round trip through some formats, the shape of a one-dimensional tensor is a
            // single number.
            Some(one) if one.is_integer() => as_type(batch, SHAPE, &DataType::Int64)?,
            _ => as_type(batch, SHAPE, &DataType::List(item))?,
        };
        Ok(Self {
            names: as_type(batch, NAME, &DataType::LargeBinary)?,
            dtypes: as_type(batch, DTYPE, &DataType::LargeBinary)?,
            shapes,
            data: bytes,
        })
    }

    fn tensor(&self, row: usize) -> Result<(SpooledTensor, &[u8])> {
        let text = |column: &'static str, texts: &ArrayRef| {
            let bytes = if texts.is_null(row) { None } else { Some(texts.as_binary::<i64>().value(row)) };
            let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok()).map(str::to_owned);
            text.ok_or_else(|| Error::malformed("the value is missing or not UTF-8").column(column))
        };
        let name = text(NAME, &self.names)?;
        let word = text(DTYPE, &self.dtypes)?;
        let dtype = Dtype::named(&word)
            .ok_or_else(|| Error::unsupported("no such dtype").column(DTYPE).found(format!("{word:?}")))?;
        let shape = self.shape(row).ok_or_else(|| Error::malformed("no shape").column(SHAPE))?;
        if self.data.is_null(row) {
            return Err(Error::malformed("the record has no data").column(DATA).tensor(name));
        }
        let data = self.data.as_binary::<i64>().value(row);
        let elements = element_count(&shape).map_err(|error| error.tensor(&name))?;
        if dtype == Dtype::STR {
            check_strings(data, elements).map_err(|error| error.tensor(&name))?;
        } else {
            let expected = dtype.info().map_or(Ok(0), |info| info.bytes_of(elements));
            let expected = expected.map_err(|error| error.tensor(&name))?;
            if expected != data.len() as u64 {
                let error = Error::malformed("the length of the data does not match the dtype and shape");
                return Err(error.column(DATA).tensor(name).expected(expected).found(data.len()));
            }
        }
        let bytes = Spooled { file: 0, offset: 0, len: data.len() as u64 };
        Ok((SpooledTensor { name, dtype, shape, bytes }, data))
    }

    /// Returns the shape of the tensor in a row. A missing shape counts as the shape of a scalar,
    /// because some formats do not distinguish an empty list from a missing list.
    fn shape(&self, row: usize) -> Option<Vec<u64>> {
        if self.shapes.is_null(row) {
            return Some(Vec::new());
        }
        if let Some(numbers) = self.shapes.as_primitive_opt::<Int64Type>() {
            return Some(vec![u64::try_from(numbers.value(row)).ok()?]);
        }
        let dims = self.shapes.as_list::<i32>().value(row);
        let dims = dims.as_primitive_opt::<Int64Type>()?;
        dims.iter().map(|dim| u64::try_from(dim?).ok()).collect()
    }
}

fn as_type(batch: &RecordBatch, name: &'static str, to: &DataType) -> Result<ArrayRef> {
    let column = batch.column_by_name(name).ok_or_else(|| {
        Error::usage("records that contain tensors need the columns name, dtype, shape and data").column(name)
    })?;
    cast(column, to, true).map_err(|_| {
        Error::usage("the column has the wrong type for records that contain tensors")
            .column(name)
            .expected(to)
            .found(column.data_type())
    })
}

/// Checks that the bytes consist of `elements` strings, each stored as its length followed by its
/// bytes.
fn check_strings(mut data: &[u8], elements: u64) -> Result<()> {
    let wrong = || Error::malformed("the number of strings in the data does not match the shape");
    for _ in 0..elements {
        let (len, rest) = data.split_first_chunk::<8>().ok_or_else(wrong)?;
        let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| wrong())?;
        data = rest.get(len..).ok_or_else(wrong)?;
    }
    if data.is_empty() { Ok(()) } else { Err(wrong()) }
}
