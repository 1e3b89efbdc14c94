//! Tests of Arrow IPC files that are written and read in memory, and of files that pyarrow wrote.
#![expect(clippy::unwrap_used, reason = "tests")]

mod conformance;
mod fixtures;
mod round_trip;
mod sharing;

use std::sync::Arc;
use tensorferry_arrow::Arrow;
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::memory::pairs;
use tensorferry_sdk::memory::records::{self, OpenedRecords};
use tensorferry_sdk::records::Batches;
use tensorferry_sdk::{MemoryContext, MemorySource, Result, Target};

fn open(name: &str, bytes: Vec<u8>) -> Result<OpenedRecords> {
    records::open(&Arrow, &[], Arc::new(MemorySource::file(name, bytes)), &MemoryContext::default())
}

fn read(name: &str, bytes: Vec<u8>) -> Result<Vec<RecordBatch>> {
    Ok(records::read(&*open(name, bytes)?, &Batches::default())?.concat())
}

/// Writes the pieces to one file, and returns the bytes of the file.
fn written(name: &str, pieces: &[Vec<RecordBatch>], given: &[(&str, &str)]) -> Result<Vec<u8>> {
    let (schema, target) = (pieces[0][0].schema(), Target::File(name.to_owned()));
    let context = MemoryContext::default();
    let mut output = records::write(&Arrow, &pairs(given), &schema, pieces, &target, &context)?;
    Ok(output.files.pop_first().unwrap().1)
}
