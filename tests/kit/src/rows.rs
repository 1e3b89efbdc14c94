//! Functions that write and read the rows of a format in memory.

use std::sync::Arc;
use tensorferry_sdk::arrow_array::{ArrayRef, RecordBatch};
use tensorferry_sdk::memory::records::{self, RecordOutput};
use tensorferry_sdk::records::{Batches, RecordSet};
use tensorferry_sdk::{Format, Loss, MemoryContext, Result, Source, Target, memory::pairs};

/// Returns a batch of these columns, which are nullable.
pub fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Returns all batches of all splits.
pub fn batches(set: &dyn RecordSet, request: &Batches) -> Result<Vec<RecordBatch>> {
    Ok(records::read(set, request)?.concat())
}

/// Reads a source, and returns all rows and the losses.
pub fn read(
    format: &dyn Format,
    source: impl Source + 'static,
    options: &[(&str, &str)],
) -> Result<(Vec<RecordBatch>, Vec<Loss>)> {
    let set = records::open(format, &pairs(options), Arc::new(source), &MemoryContext::default())?;
    Ok((batches(&*set, &Batches::default())?, set.losses()?))
}

/// Writes each batch as a piece.
pub fn write(
    format: &dyn Format,
    batches: &[RecordBatch],
    target: &Target,
    options: &[(&str, &str)],
) -> Result<RecordOutput> {
    let pieces: Vec<_> = batches.iter().map(|batch| vec![batch.clone()]).collect();
    let context = MemoryContext::default();
    records::write(format, &pairs(options), &batches[0].schema(), &pieces, target, &context)
}

/// Writes each batch as a piece of one file. Returns the bytes of the file and the losses.
pub fn write_file(
    format: &dyn Format,
    batches: &[RecordBatch],
    name: &str,
    options: &[(&str, &str)],
) -> Result<(Vec<u8>, Vec<Loss>)> {
    let mut output = write(format, batches, &Target::File(name.to_owned()), options)?;
    Ok((output.files.pop_first().unwrap().1, output.losses))
}
