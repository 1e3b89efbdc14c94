//! Sources made of bytes, read and written by the format in memory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tensorferry_keras::Keras;
use tensorferry_sdk::memory::{self, MemoryView};
use tensorferry_sdk::{Entry, MemoryContext, MemorySource, Result, Source};

#[path = "../../../torch-file/tests/common/facts.rs"]
pub(crate) mod facts;
#[path = "../../../torch/tests/common/zip.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod zip;

/// A `.keras` archive of these files.
pub(crate) fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::Zip::default();
    for (name, bytes) in files {
        let entry = zip.add(name, bytes);
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        for header in [&mut entry.local, &mut entry.central] {
            header.name = name.as_bytes().to_vec();
            header.crc = crc.sum();
        }
    }
    zip.bytes()
}

/// Reads a source under these options, and hands it on.
pub(crate) fn with_view<T>(
    source: &dyn Source,
    options: &[(&str, &str)],
    check: impl FnOnce(&MemoryView<'_>) -> T,
) -> Result<T> {
    let context = MemoryContext::default();
    let view = MemoryView::read(&Keras, &memory::pairs(options), source, &context)?;
    Ok(check(&view))
}

/// What a case is pointed at: a file and its neighbours, or a folder.
pub(crate) fn source(case: &Path, entry: &str) -> MemorySource {
    let path = case.join(entry);
    let folder = if path.is_dir() { &*path } else { path.parent().unwrap() };
    let mut files = BTreeMap::new();
    for file in fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            files.insert(file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap());
        }
    }
    let is_folder = path.is_dir();
    MemorySource::new(if is_folder { Entry::Folder } else { Entry::File(entry.to_owned()) }, files)
}
