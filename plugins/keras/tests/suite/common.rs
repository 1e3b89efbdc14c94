//! Builds input sources from bytes and from fixtures.

use std::path::Path;
use tensorferry_sdk::{Entry, MemorySource};
use tensorferry_test_kit::fixtures::files_below;
use tensorferry_test_kit::zip::Zip;

/// Builds a `.keras` archive that contains these files.
pub(crate) fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = Zip::default();
    for (name, bytes) in files {
        let entry = zip.member(name, bytes);
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        for header in [&mut entry.local, &mut entry.central] {
            header.crc = crc.sum();
        }
    }
    zip.bytes()
}

/// Returns the input of a fixture: a folder, or a file together with the other files of its folder.
pub(crate) fn source(case: &Path, entry: &str) -> MemorySource {
    let path = case.join(entry);
    let folder = if path.is_dir() { &*path } else { path.parent().unwrap() };
    let files = files_below(folder).into_iter().filter(|(name, _)| !name.contains('/')).collect();
    let is_folder = path.is_dir();
    MemorySource::new(if is_folder { Entry::Folder } else { Entry::File(entry.to_owned()) }, files)
}
