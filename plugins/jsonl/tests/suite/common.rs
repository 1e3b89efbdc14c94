//! Helpers that read and write rows in memory, in the same way as a host.

use std::collections::BTreeMap;
use std::sync::Arc;
use tensorferry_jsonl::JsonLines;
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::memory::pairs;
use tensorferry_sdk::memory::records::{self, OpenedRecords};
use tensorferry_sdk::records::Batches;
use tensorferry_sdk::{Limits, Loss, MemoryContext, MemorySource, Result, Source};
use tensorferry_test_kit::rows::{batches, write_file};

/// Opens a source with these reader options.
pub(crate) fn open(
    source: impl Source + 'static,
    given: &[(&str, &str)],
    limits: Limits,
) -> Result<OpenedRecords> {
    open_beside(source, given, &MemoryContext::new(limits))
}

/// Opens a source with these reader options in a context.
pub(crate) fn open_beside(
    source: impl Source + 'static,
    given: &[(&str, &str)],
    context: &MemoryContext,
) -> Result<OpenedRecords> {
    records::open(&JsonLines, &pairs(given), Arc::new(source), context)
}

/// Reads a short file with this content as one batch.
pub(crate) fn read(text: impl AsRef<[u8]>) -> Result<RecordBatch> {
    let set = open(MemorySource::file("in.jsonl", text.as_ref()), &[], Limits::default())?;
    let mut all = batches(&*set, &Batches::default())?;
    assert_eq!(all.len(), 1);
    Ok(all.remove(0))
}

/// Returns the error message for a file with this content. Panics if the file can be opened and
/// read.
pub(crate) fn refusal(text: impl AsRef<[u8]>, given: &[(&str, &str)]) -> String {
    let read = open(MemorySource::file("in.jsonl", text.as_ref()), given, Limits::default())
        .and_then(|set| batches(&*set, &Batches::default()));
    read.unwrap_err().to_string()
}

/// Writes the batches to one file. Each batch becomes a piece of the file. Returns the file name,
/// the bytes and the losses.
pub(crate) fn write(
    pieces: &[RecordBatch],
    name: &str,
    given: &[(&str, &str)],
) -> Result<(Vec<u8>, Vec<Loss>)> {
    write_file(&JsonLines, pieces, name, given)
}

/// Returns the rows as JSON lines.
pub(crate) fn lines(rows: &RecordBatch) -> String {
    String::from_utf8(write(std::slice::from_ref(rows), "out.jsonl", &[]).unwrap().0).unwrap()
}

pub(crate) fn folder(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    files.iter().map(|&(name, text)| (name.to_owned(), text.as_bytes().to_vec())).collect()
}
