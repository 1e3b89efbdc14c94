//! Rows read and written by the format in memory, the way a host does it.
#![allow(dead_code, clippy::unwrap_used, reason = "tests; not every test file uses all of it")]

use ferry_parquet::Parquet;
use std::collections::BTreeMap;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::{ArrayRef, RecordBatch};
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::records::{Batches, PlacedPiece, RecordSet, from_stream};
use tensorferry_sdk::{
    Entry, Format, Limits, Loss, MemoryContext, MemorySource, Options, Result, Side, Source, Target,
};

/// What was written.
pub(crate) struct Written {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) losses: Vec<Loss>,
}

/// Writes pieces, dealt over the files in turn.
pub(crate) fn write(
    schema: &SchemaRef,
    pieces: &[Vec<RecordBatch>],
    options: &[(&str, &str)],
) -> Result<Written> {
    let given: Vec<_> = options.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    let options = Options::check(&Parquet.describe().options, Side::Writer, &given)?;
    let writer = Parquet.record_writer(&options)?;
    let target = Target::File("out.parquet".to_owned());
    let plan = writer.plan(schema, None, &target, &MemoryContext::default())?;
    let mut files = BTreeMap::new();
    for (file, name) in plan.files().iter().enumerate() {
        let mut bytes = Vec::new();
        plan.begin(file, &mut bytes)?;
        let mut placed = Vec::new();
        for batches in pieces.iter().skip(file).step_by(plan.files().len()) {
            let offset = bytes.len() as u64;
            let note = plan.encode(file, batches, &mut bytes)?.note;
            let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
            placed.push(PlacedPiece { offset, len: bytes.len() as u64 - offset, rows, note });
        }
        plan.finish(file, &placed, &mut bytes)?;
        files.insert(name.clone(), bytes);
    }
    Ok(Written { files, losses: plan.losses() })
}

/// One file with these pieces, under the default options.
pub(crate) fn file(pieces: &[RecordBatch], options: &[(&str, &str)]) -> Vec<u8> {
    let schema = pieces[0].schema();
    let pieces: Vec<_> = pieces.iter().map(|batch| vec![batch.clone()]).collect();
    let mut written = write(&schema, &pieces, options).unwrap();
    written.files.pop_first().unwrap().1
}

/// Opens a source.
pub(crate) fn open(source: impl Source + 'static, limits: Limits) -> Result<Box<dyn RecordSet>> {
    let reader = Parquet.record_reader(&Options::defaults(&[], Side::Reader))?;
    reader.open(Arc::new(source), &MemoryContext::new(limits))
}

/// All batches of all splits.
pub(crate) fn batches(set: &dyn RecordSet, request: &Batches) -> Result<Vec<RecordBatch>> {
    let mut all = Vec::new();
    for split in 0..set.splits().len() {
        for batch in set.stream(split, request)? {
            all.push(batch.map_err(from_stream)?);
        }
    }
    Ok(all)
}

/// All rows of a file.
pub(crate) fn read(bytes: &[u8]) -> Result<Vec<RecordBatch>> {
    read_within(bytes, Limits::default())
}

/// All rows of a file, under these limits.
pub(crate) fn read_within(bytes: &[u8], limits: Limits) -> Result<Vec<RecordBatch>> {
    batches(open(MemorySource::file("in.parquet", bytes), limits)?.as_ref(), &Batches::default())
}

/// A folder of these files.
pub(crate) fn folder(files: &[(&str, &[u8])]) -> MemorySource {
    let files = files.iter().map(|&(name, bytes)| (name.to_owned(), bytes.to_vec()));
    MemorySource::new(Entry::Folder, files.collect())
}

/// Rows of these columns, each nullable.
pub(crate) fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}
