//! Rows read and written by the format in memory, the way a host does it.

use tensorferry_mds::Mds;
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::memory::records::RecordOutput;
use tensorferry_sdk::{Loss, MemorySource, Result, Target};
use tensorferry_test_kit::fixtures::{cases, files_below};
use tensorferry_test_kit::{Files, rows};

/// All rows of a set, and what was lost.
pub(crate) fn read(source: MemorySource, given: &[(&str, &str)]) -> Result<(Vec<RecordBatch>, Vec<Loss>)> {
    rows::read(&Mds, source, given)
}

/// A folder of these files.
pub(crate) fn folder(files: &Files) -> MemorySource {
    MemorySource::folder(files.clone())
}

/// Writes batches, each a shard.
pub(crate) fn write(pieces: &[RecordBatch], given: &[(&str, &str)]) -> Result<RecordOutput> {
    rows::write(&Mds, pieces, &Target::Folder, given)
}

/// The files of a set of these batches.
pub(crate) fn files(pieces: &[RecordBatch], given: &[(&str, &str)]) -> Files {
    let output = write(pieces, given).unwrap();
    output.files.into_iter().chain(output.sealed).collect()
}

/// The files of a case.
pub(crate) fn case(name: &str) -> Files {
    files_below(&cases("mds", name)[0])
}
