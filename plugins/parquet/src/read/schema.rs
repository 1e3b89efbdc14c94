//! Finds the one schema of several files, which is the first file's.

use super::{OpenFile, arrow_hint};
use crate::fault::decoded;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use std::sync::Arc;
use tensorferry_sdk::arrow_schema::{Field, Fields, Schema, SchemaRef};
use tensorferry_sdk::{Error, Result};

/// The schema of the first file, nullable where any file is; notes in each file what its columns are
/// read as.
///
/// # Errors
/// Malformed, naming the file and the column that contradicts the first file; unsupported, for types
/// that Arrow has not.
pub(super) fn of_all(files: &mut [OpenFile]) -> Result<SchemaRef> {
    let Some((first, others)) = files.split_first_mut() else { return Ok(Arc::new(Schema::empty())) };
    let schema = of_file(first, None)?;
    first.fields = schema.fields().clone();
    let mut fields = schema.fields().to_vec();
    for file in others {
        let own = of_file(file, None)?.fields().clone();
        let fits = |own: &Fields| contradiction(&fields, own).is_none();
        // The same columns under another Arrow type: strings that a writer kept as large ones.
        let own = if fits(&own) { own } else { as_first(file, &schema, own) };
        if let Some((column, expected, found)) = contradiction(&fields, &own) {
            let expected = format!("{expected}, as in {:?}", first.file.name());
            return Err(Error::malformed("a column contradicts the first file's")
                .file(file.file.name())
                .column(column)
                .expected(expected)
                .found(found));
        }
        for (field, own) in fields.iter_mut().zip(&own) {
            if own.is_nullable() && !field.is_nullable() {
                *field = Arc::new(field.as_ref().clone().with_nullable(true));
            }
        }
        file.fields = own;
    }
    Ok(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// The Arrow schema of a file, or the one that is given for it.
fn of_file(file: &OpenFile, given: Option<SchemaRef>) -> Result<SchemaRef> {
    let mut options = ArrowReaderOptions::new();
    if let Some(schema) = given {
        options = options.with_schema(schema);
    }
    let metadata = arrow_hint::check(file.metadata.file_metadata().key_value_metadata())
        .and_then(|()| decoded(|| ArrowReaderMetadata::try_new(file.metadata.clone(), options)));
    let metadata = metadata.map_err(|error| error.context("the schema").file(file.file.name()))?;
    Ok(metadata.schema().clone())
}

/// The columns with the first file's types, each as nullable as it is here; as they are, if that cannot be.
fn as_first(file: &OpenFile, first: &Schema, own: Fields) -> Fields {
    let retyped = own.iter().map(|own| {
        let like = first.field_with_name(own.name()).map_or(own.data_type(), |field| field.data_type());
        own.as_ref().clone().with_data_type(like.clone())
    });
    let schema = Schema::new(retyped.collect::<Vec<Field>>());
    of_file(file, Some(Arc::new(schema))).map_or(own, |schema| schema.fields().clone())
}

/// The first column that is not the same, and what was expected and found.
fn contradiction(first: &[Arc<Field>], own: &Fields) -> Option<(String, String, String)> {
    for (index, field) in first.iter().enumerate() {
        let Some(own) = own.get(index).filter(|own| own.name() == field.name()) else {
            let found =
                own.get(index).map_or("the last column".to_owned(), |own| format!("column {:?}", own.name()));
            return Some((field.name().clone(), "it at this place".to_owned(), found));
        };
        if own.data_type() != field.data_type() {
            return Some((field.name().clone(), field.data_type().to_string(), own.data_type().to_string()));
        }
    }
    let more = own.get(first.len())?;
    Some((more.name().clone(), "no more columns".to_owned(), more.data_type().to_string()))
}
