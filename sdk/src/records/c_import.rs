//! Imports the batches of a C stream.
#![allow(unsafe_code, reason = "the C data interface requires unsafe code")]

use super::c_data::schema_from_abi;
use super::c_shape::{Shape, wrong};
use super::stream_error;
use crate::{Error, Result};
use arrow_array::ffi::{FFI_ArrowArray, from_ffi_and_data_type};
use arrow_array::{RecordBatch, RecordBatchOptions, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use std::ffi::CStr;
use std::mem::transmute;
use tensorferry_abi::{ArrowArray, ArrowArrayStream, ArrowSchema, Failure, caught};

/// An iterator over the batches of a C stream.
pub(crate) struct CStream {
    stream: ArrowArrayStream,
    schema: SchemaRef,
    shape: Shape,
}

impl CStream {
    pub(crate) fn new(mut stream: ArrowArrayStream) -> Result<Self> {
        if stream.release.is_none() {
            return Err(Error::plugin("the stream was already released"));
        }
        let Some(get_schema) = stream.get_schema else {
            return Err(wrong("get_schema of the stream is null"));
        };
        if stream.get_next.is_none() {
            return Err(wrong("get_next of the stream is null"));
        }
        let mut schema = ArrowSchema::released();
        // SAFETY: the stream has not been released.
        let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
        if code != 0 {
            return Err(Error::plugin(format!("the stream has no schema: {}", reason(&mut stream, code))));
        }
        let schema = schema_from_abi(schema)?;
        let shape = Shape::of(&DataType::Struct(schema.fields().clone()));
        Ok(Self { stream, schema, shape })
    }

    fn pull(&mut self) -> Result<Option<RecordBatch>> {
        let Some(get_next) = self.stream.get_next else { return Ok(None) };
        // SAFETY: all zero bytes are a valid value of the structure, and represent a released
        // array.
        let mut array: ArrowArray = unsafe { std::mem::zeroed() };
        // SAFETY: the stream has not been released.
        let code = unsafe { get_next(&raw mut self.stream, &raw mut array) };
        if code != 0 {
            return Err(Error::malformed(reason(&mut self.stream, code)));
        }
        if array.release.is_none() {
            return Ok(None);
        }
        self.shape.check(&array)?;
        let import = || {
            let data_type = DataType::Struct(self.schema.fields().clone());
            // SAFETY: both crates declare the array structure with the same fields. The array has
            // not been released, and its shape matches its type.
            let data =
                unsafe { from_ffi_and_data_type(transmute::<ArrowArray, FFI_ArrowArray>(array), data_type) };
            let batch = data.and_then(|data| {
                let options = RecordBatchOptions::new().with_row_count(Some(data.len()));
                let columns = StructArray::from(data).into_parts().1;
                RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            });
            batch.map_err(|error| Failure::from(wrong(&error.to_string())))
        };
        Ok(caught("a batch of a stream", import).map(Some)?)
    }
}

fn reason(stream: &mut ArrowArrayStream, code: i32) -> String {
    let text = stream.get_last_error.map(|last_error| {
        // SAFETY: the stream has not been released.
        unsafe { last_error(stream) }
    });
    match text.filter(|text| !text.is_null()) {
        // SAFETY: the string ends with a zero byte, and remains valid until the next call on the
        // stream.
        Some(text) => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        None => format!("the stream failed with code {code} and gave no reason"),
    }
}

impl Iterator for CStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pull().map_err(stream_error).transpose()
    }
}

impl RecordBatchReader for CStream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
