//! Folders made of bytes, read and written by the format in memory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tensorferry_orbax::Orbax;
use tensorferry_sdk::memory::{self, MemoryOutput, MemoryView};
use tensorferry_sdk::{CatalogSink, Entry, MemoryContext, MemorySource, Result, Source, Target};

#[path = "../../../torch-file/tests/common/facts.rs"]
pub(crate) mod facts;

/// The files below a folder.
pub(crate) fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                files.insert(name, fs::read(path).unwrap());
            }
        }
    }
    files
}

pub(crate) fn folder(files: BTreeMap<String, Vec<u8>>) -> MemorySource {
    MemorySource::new(Entry::Folder, files)
}

/// Reads a source, and hands it on.
pub(crate) fn with_view<T>(source: &dyn Source, check: impl FnOnce(&MemoryView<'_>) -> T) -> Result<T> {
    let context = MemoryContext::default();
    let view = MemoryView::read(&Orbax, &[], source, &context)?;
    Ok(check(&view))
}

/// Writes what `fill` makes.
pub(crate) fn write(
    fill: impl FnOnce(&mut dyn CatalogSink) -> Result<()>,
    target: &Target,
) -> Result<MemoryOutput> {
    let (source, context) = (MemorySource::file("model", []), MemoryContext::default());
    let view = MemoryView::made("model", &source, &context, fill)?;
    memory::write(&Orbax, &[], &view, target, &context)
}
