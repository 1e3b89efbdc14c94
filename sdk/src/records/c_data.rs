//! Converts between the ABI crate's Arrow C structures and those of arrow-rs, which have the same
//! layout. This file, `c_shape.rs` and `c_import.rs` contain the SDK's only unsafe code.
//!
//! # Contract
//! Both crates declare the structures of the Arrow C data interface as `repr(C)` with the same
//! fields. See `tensorferry_abi::ArrowSchema` and `arrow_schema::ffi::FFI_ArrowSchema`. Transmuting
//! an owned structure moves it, and no `Drop` runs in between.
#![allow(unsafe_code, reason = "the C data interface requires unsafe code")]

use super::c_shape::check_schema;
use crate::{Error, Result};
use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, FieldRef, Fields, Schema, SchemaRef};
use std::mem::transmute;
use std::sync::Arc;
use tensorferry_abi::{ArrowArrayStream, ArrowSchema};

pub(crate) fn schema_to_abi(schema: &Schema) -> Result<ArrowSchema> {
    check_names(schema.fields())?;
    let exported = FFI_ArrowSchema::try_from(schema)
        .map_err(|e| Error::plugin(format!("the schema cannot cross the boundary: {e}")))?;
    // SAFETY: the contract in the module documentation holds.
    Ok(unsafe { transmute::<FFI_ArrowSchema, ArrowSchema>(exported) })
}

/// Checks that the names of all columns and nested fields fit into C strings.
fn check_names(fields: &Fields) -> Result<()> {
    let has_nul = |field: &&FieldRef| has_nul_in_name(field);
    let Some(column) = fields.iter().find(has_nul) else { return Ok(()) };
    let what = if column.name().contains('\0') { "column name" } else { "name of a nested field" };
    let error = Error::unsupported(format!("a {what} contains a NUL character"));
    Err(error.hint("rename it in the input").column(column.name()))
}

fn has_nul_in_name(field: &FieldRef) -> bool {
    let inner = |fields: &Fields| fields.iter().any(has_nul_in_name);
    field.name().contains('\0')
        || match field.data_type() {
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::ListView(item)
            | DataType::LargeListView(item)
            | DataType::RunEndEncoded(_, item)
            | DataType::Map(item, _) => has_nul_in_name(item),
            DataType::Struct(fields) => inner(fields),
            DataType::Union(fields, _) => fields.iter().any(|(_, field)| has_nul_in_name(field)),
            DataType::Dictionary(_, values) => match &**values {
                DataType::Struct(fields) => inner(fields),
                _ => false,
            },
            _ => false,
        }
}

pub(crate) fn schema_from_abi(schema: ArrowSchema) -> Result<SchemaRef> {
    check_schema(&schema)?;
    // SAFETY: the contract in the module documentation holds, and the schema has not been released.
    let imported = unsafe { transmute::<ArrowSchema, FFI_ArrowSchema>(schema) };
    let schema = Schema::try_from(&imported);
    schema.map(Arc::new).map_err(|e| Error::plugin(format!("invalid Arrow schema: {e}")))
}

pub(crate) fn stream_to_abi(stream: Box<dyn RecordBatchReader + Send>) -> ArrowArrayStream {
    // SAFETY: the contract in the module documentation holds.
    unsafe { transmute::<FFI_ArrowArrayStream, ArrowArrayStream>(FFI_ArrowArrayStream::new(stream)) }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::ErrorKind;
    use arrow_schema::Field;

    #[test]
    fn a_nul_in_a_name_is_unsupported_with_the_columns_name() {
        let field = |name: &str, of: DataType| Field::new(name, of, true);
        let inner = DataType::Struct(vec![field("x\0", DataType::Int8)].into());
        for (column, name) in [
            (field("a\0b", DataType::Int8), "a\0b"),
            (field("a", inner.clone()), "a"),
            (field("a", DataType::new_list(inner, true)), "a"),
        ] {
            let schema = Schema::new(vec![field("ok", DataType::Utf8), column]);
            let error = schema_to_abi(&schema).map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains(&format!("{name:?}")), "{error}");
        }
        assert!(schema_to_abi(&Schema::new(vec![field("ok", DataType::Utf8)])).is_ok());
    }
}
