//! Converts between Arrow's C structures of the ABI crate and those of arrow-rs, which are the same bytes. This, `c_shape.rs` and `c_import.rs` are the SDK's only unsafe code.
//!
//! # Contract
//! Both sides declare the structures of the Arrow C data interface field for field, `repr(C)`: see
//! `tensorferry_abi::ArrowSchema` and `arrow_schema::ffi::FFI_ArrowSchema`. An owned structure stays
//! owned: a transmutation moves it, and neither side's `Drop` runs on the way.
#![allow(unsafe_code, reason = "the C data interface has no other form")]

use super::c_shape::check_schema;
use crate::{Error, Result};
use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{Schema, SchemaRef};
use std::mem::transmute;
use std::sync::Arc;
use tensorferry_abi::{ArrowArrayStream, ArrowSchema};

pub(crate) fn schema_to_abi(schema: &Schema) -> Result<ArrowSchema> {
    let exported = FFI_ArrowSchema::try_from(schema)
        .map_err(|e| Error::plugin(format!("a schema that does not cross the boundary: {e}")))?;
    // SAFETY: the module's contract.
    Ok(unsafe { transmute::<FFI_ArrowSchema, ArrowSchema>(exported) })
}

pub(crate) fn schema_from_abi(schema: ArrowSchema) -> Result<SchemaRef> {
    check_schema(&schema)?;
    // SAFETY: the module's contract; it was not released.
    let imported = unsafe { transmute::<ArrowSchema, FFI_ArrowSchema>(schema) };
    let schema = Schema::try_from(&imported);
    schema.map(Arc::new).map_err(|e| Error::plugin(format!("a schema that is not Arrow's: {e}")))
}

pub(crate) fn stream_to_abi(stream: Box<dyn RecordBatchReader + Send>) -> ArrowArrayStream {
    // SAFETY: the module's contract.
    unsafe { transmute::<FFI_ArrowArrayStream, ArrowArrayStream>(FFI_ArrowArrayStream::new(stream)) }
}
