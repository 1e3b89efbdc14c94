//! Helpers that read and write rows in memory, as a host does.

use std::sync::Arc;
use tensorferry_parquet::Parquet;
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::memory::records::{self, OpenedRecords, RecordOutput};
use tensorferry_sdk::records::Batches;
use tensorferry_sdk::{Limits, MemoryContext, MemorySource, Result, Source, Target, memory};
use tensorferry_test_kit::rows::{self, batches};

/// Writes the pieces to the files of the output in round-robin order.
pub(crate) fn write(
    schema: &SchemaRef,
    pieces: &[Vec<RecordBatch>],
    options: &[(&str, &str)],
) -> Result<RecordOutput> {
    let target = Target::File("out.parquet".to_owned());
    records::write(&Parquet, &memory::pairs(options), schema, pieces, &target, &MemoryContext::default())
}

/// Returns one file that contains these pieces.
pub(crate) fn file(pieces: &[RecordBatch], options: &[(&str, &str)]) -> Vec<u8> {
    rows::write_file(&Parquet, pieces, "out.parquet", options).unwrap().0
}

pub(crate) fn open(source: impl Source + 'static, limits: Limits) -> Result<OpenedRecords> {
    records::open(&Parquet, &[], Arc::new(source), &MemoryContext::new(limits))
}

/// Reads all rows of a file.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<RecordBatch>> {
    read_within(bytes, Limits::default())
}

/// Reads all rows of a file with these limits.
pub(crate) fn read_within(bytes: &[u8], limits: Limits) -> Result<Vec<RecordBatch>> {
    batches(&*open(MemorySource::file("in.parquet", bytes), limits)?, &Batches::default())
}

pub(crate) fn folder(files: &[(&str, &[u8])]) -> MemorySource {
    MemorySource::folder(files.iter().copied())
}
