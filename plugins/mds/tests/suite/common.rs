//! Rows read and written by the format in memory, the way a host does it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tensorferry_mds::Mds;
use tensorferry_sdk::arrow_array::{ArrayRef, RecordBatch};
use tensorferry_sdk::memory::pairs;
use tensorferry_sdk::memory::records::{self, RecordOutput};
use tensorferry_sdk::records::Batches;
use tensorferry_sdk::{Entry, Loss, MemoryContext, MemorySource, Result, Target};

/// The files of a set by their names.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// All rows of a set, and what was lost.
pub(crate) fn read(source: MemorySource, given: &[(&str, &str)]) -> Result<(Vec<RecordBatch>, Vec<Loss>)> {
    let set = records::open(&Mds, &pairs(given), Arc::new(source), &MemoryContext::default())?;
    Ok((records::read(&*set, &Batches::default())?.concat(), set.losses()?))
}

/// A folder of these files.
pub(crate) fn folder(files: &Files) -> MemorySource {
    MemorySource::new(Entry::Folder, files.clone())
}

/// Writes batches, each a shard.
pub(crate) fn write(pieces: &[RecordBatch], given: &[(&str, &str)]) -> Result<RecordOutput> {
    let all: Vec<_> = pieces.iter().map(|piece| vec![piece.clone()]).collect();
    let context = MemoryContext::default();
    records::write(&Mds, &pairs(given), &pieces[0].schema(), &all, &Target::Folder, &context)
}

/// The files of a set of these batches.
pub(crate) fn files(pieces: &[RecordBatch], given: &[(&str, &str)]) -> Files {
    let output = write(pieces, given).unwrap();
    output.files.into_iter().chain(output.sealed).collect()
}

/// Rows of these columns, each nullable.
pub(crate) fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Where the fixtures lie.
pub(crate) fn cases() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/mds")
}

/// The files of a case.
pub(crate) fn case(name: &str) -> Files {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(cases().join(name)).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        if file != "expected.json" && path.is_file() {
            files.insert(file, fs::read(path).unwrap());
        }
    }
    files
}
