//! Arrow C streams in Python capsules, built from the structures of `arrow-array`. The interface is
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>.
#![expect(unsafe_code, reason = "C structures in capsules")]

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::CStr;
use tensorferry_sdk::arrow_array::RecordBatchReader;
use tensorferry_sdk::arrow_array::ffi::FFI_ArrowSchema;
use tensorferry_sdk::arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use tensorferry_sdk::arrow_schema::Schema;

const STREAM: &CStr = c"arrow_array_stream";
const SCHEMA: &CStr = c"arrow_schema";

/// Wraps a stream in a capsule. If no consumer takes ownership of the stream, the capsule releases
/// it.
pub(crate) fn stream<'py>(
    py: Python<'py>,
    batches: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(batches), STREAM)
}

/// Wraps a schema in a capsule.
pub(crate) fn schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema =
        FFI_ArrowSchema::try_from(schema).map_err(|error| PyTypeError::new_err(error.to_string()))?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// Takes ownership of the stream of an object that has `__arrow_c_stream__`.
pub(crate) fn stream_of(object: &Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
    if !object.hasattr("__arrow_c_stream__")? {
        let found = object.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "a {found} is not a table of records: it has no __arrow_c_stream__"
        )));
    }
    let capsule = object.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let stream = capsule.pointer_checked(Some(STREAM))?.cast::<FFI_ArrowArrayStream>();
    // SAFETY: according to the interface, the capsule contains such a structure. This code moves
    // the structure out and leaves a released one in the capsule.
    let reader = unsafe { RecordBatchStreamReader::from_raw(stream.as_ptr()) };
    let found = object.get_type().name()?;
    let refused =
        |error| PyTypeError::new_err(format!("a {found} is not a stream of records with columns: {error}"));
    Ok(Box::new(reader.map_err(refused)?))
}
