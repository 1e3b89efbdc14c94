//! Rows read and written by the format in memory, the way a host does it.

use std::sync::Arc;
use tensorferry_parquet::Parquet;
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::memory::records::{self, Opened, RecordOutput};
use tensorferry_sdk::records::Batches;
use tensorferry_sdk::{Limits, MemoryContext, MemorySource, Result, Source, Target, memory};
use tensorferry_test_kit::rows::{self, batches};

/// Writes pieces, dealt over the files in turn.
pub(crate) fn write(
    schema: &SchemaRef,
    pieces: &[Vec<RecordBatch>],
    options: &[(&str, &str)],
) -> Result<RecordOutput> {
    let target = Target::File("out.parquet".to_owned());
    records::write(&Parquet, &memory::pairs(options), schema, pieces, &target, &MemoryContext::default())
}

/// One file with these pieces, under the default options.
pub(crate) fn file(pieces: &[RecordBatch], options: &[(&str, &str)]) -> Vec<u8> {
    rows::write_file(&Parquet, pieces, "out.parquet", options).unwrap().0
}

/// Opens a source.
pub(crate) fn open(source: impl Source + 'static, limits: Limits) -> Result<Opened> {
    records::open(&Parquet, &[], Arc::new(source), &MemoryContext::new(limits))
}

/// All rows of a file.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<RecordBatch>> {
    read_within(bytes, Limits::default())
}

/// All rows of a file, under these limits.
pub(crate) fn read_within(bytes: &[u8], limits: Limits) -> Result<Vec<RecordBatch>> {
    batches(&*open(MemorySource::file("in.parquet", bytes), limits)?, &Batches::default())
}

/// A folder of these files.
pub(crate) fn folder(files: &[(&str, &[u8])]) -> MemorySource {
    MemorySource::folder(files.iter().copied())
}
