//! Helpers that read and write rows in memory, in the same way as a host.

use std::sync::Arc;
use tensorferry_csv::Csv;
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::arrow_schema::DataType;
use tensorferry_sdk::memory::pairs;
use tensorferry_sdk::memory::records::{self, OpenedRecords};
use tensorferry_sdk::records::Batches;
use tensorferry_sdk::{Loss, MemoryContext, MemorySource, Result};
use tensorferry_test_kit::rows::write_file;

/// Opens a source with these reader options. `schema` is the content of the schema file.
pub(crate) fn open(source: MemorySource, given: &[(&str, &str)], schema: &str) -> Result<OpenedRecords> {
    let mut context = MemoryContext::default();
    context.sources.insert("schema.json".to_owned(), Arc::new(MemorySource::file("schema.json", schema)));
    records::open(&Csv, &pairs(given), Arc::new(source), &context)
}

/// Reads the rows of a CSV file with this content as one batch.
pub(crate) fn read_with(text: impl AsRef<[u8]>, given: &[(&str, &str)], schema: &str) -> Result<RecordBatch> {
    let set = open(MemorySource::file("in.csv", text.as_ref()), given, schema)?;
    let mut all = records::read(&*set, &Batches::default())?.concat();
    assert!(all.len() <= 1);
    Ok(all.pop().unwrap_or_else(|| RecordBatch::new_empty(set.schema())))
}

/// Reads the rows of a CSV file with this content as one batch, with default options.
pub(crate) fn read(text: impl AsRef<[u8]>) -> Result<RecordBatch> {
    read_with(text, &[], "{}")
}

/// Returns the error message for a CSV file with this content. Panics if the file is accepted.
pub(crate) fn refusal(text: impl AsRef<[u8]>, given: &[(&str, &str)], schema: &str) -> String {
    read_with(text, given, schema).unwrap_err().to_string()
}

/// Returns the names and types of the columns.
pub(crate) fn types(rows: &RecordBatch) -> Vec<(String, DataType)> {
    let schema = rows.schema();
    schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
}

/// Writes the batches to one file. Each batch becomes a piece of the file.
pub(crate) fn write(
    pieces: &[RecordBatch],
    name: &str,
    given: &[(&str, &str)],
) -> Result<(Vec<u8>, Vec<Loss>)> {
    write_file(&Csv, pieces, name, given)
}
