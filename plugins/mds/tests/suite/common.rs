//! Helpers that read and write rows in memory, in the same way as a host.

use tensorferry_mds::Mds;
use tensorferry_sdk::arrow_array::RecordBatch;
use tensorferry_sdk::memory::records::RecordOutput;
use tensorferry_sdk::{Loss, MemorySource, Result, Target};
use tensorferry_test_kit::fixtures::{cases, files_below};
use tensorferry_test_kit::{Files, rows};

/// Returns all rows of a dataset, and the losses.
pub(crate) fn read(source: MemorySource, given: &[(&str, &str)]) -> Result<(Vec<RecordBatch>, Vec<Loss>)> {
    rows::read(&Mds, source, given)
}

pub(crate) fn folder(files: &Files) -> MemorySource {
    MemorySource::folder(files.clone())
}

/// Writes the batches. Each batch becomes a shard.
pub(crate) fn write(pieces: &[RecordBatch], given: &[(&str, &str)]) -> Result<RecordOutput> {
    rows::write(&Mds, pieces, &Target::Folder, given)
}

/// Writes the batches, and returns the files.
pub(crate) fn files(pieces: &[RecordBatch], given: &[(&str, &str)]) -> Files {
    let output = write(pieces, given).unwrap();
    output.files.into_iter().chain(output.sealed).collect()
}

/// Returns the files of a fixture.
pub(crate) fn case(name: &str) -> Files {
    files_below(&cases("mds", name)[0])
}
