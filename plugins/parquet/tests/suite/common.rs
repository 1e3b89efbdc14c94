//! Rows read and written by the format in memory, the way a host does it.

use std::sync::Arc;
use tensorferry_parquet::Parquet;
use tensorferry_sdk::arrow_array::{ArrayRef, RecordBatch};
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::memory;
use tensorferry_sdk::memory::records::{self, Opened, RecordOutput};
use tensorferry_sdk::records::{Batches, RecordSet};
use tensorferry_sdk::{Limits, MemoryContext, MemorySource, Result, Source, Target};

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
    let schema = pieces[0].schema();
    let pieces: Vec<_> = pieces.iter().map(|batch| vec![batch.clone()]).collect();
    let mut written = write(&schema, &pieces, options).unwrap();
    written.files.pop_first().unwrap().1
}

/// Opens a source.
pub(crate) fn open(source: impl Source + 'static, limits: Limits) -> Result<Opened> {
    records::open(&Parquet, &[], Arc::new(source), &MemoryContext::new(limits))
}

/// All batches of all splits.
pub(crate) fn batches(set: &dyn RecordSet, request: &Batches) -> Result<Vec<RecordBatch>> {
    Ok(records::read(set, request)?.concat())
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

/// Rows of these columns, each nullable.
pub(crate) fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}
