//! Sample catalogs for the tests of the writers, and helpers to inspect the output.

use super::{Files, options};
use crate::table::Table;
use crate::{SavedModel, TfBundle};
use std::sync::Arc;
use tensorferry_proto::{BundleEntryProto, BundleHeaderProto, Message};
use tensorferry_sdk::memory::{self, MemoryOutput, MemoryView};
use tensorferry_sdk::*;

/// A catalog of tensors to write.
#[derive(Clone, Default)]
pub(crate) struct Sample {
    pub(crate) tensors: Vec<(&'static str, Dtype, Vec<u64>, Vec<u8>)>,
    /// Names of tensors that share the bytes of another tensor. Each item contains the name and the
    /// index of the other tensor.
    pub(crate) tied: Vec<(&'static str, usize)>,
    pub(crate) metadata: Vec<(&'static str, String)>,
    /// Whether the sample is written as a SavedModel.
    pub(crate) is_saved_model: bool,
}

impl Sample {
    pub(crate) fn of(tensors: &[(&'static str, Dtype, Vec<u64>, Vec<u8>)]) -> Self {
        Self { tensors: tensors.to_vec(), ..Self::default() }
    }

    fn fill(&self, catalog: &mut dyn CatalogSink) -> Result<()> {
        let mut storages = Vec::new();
        for (name, dtype, shape, bytes) in &self.tensors {
            let storage = catalog.storage(Storage::inline(bytes.clone()))?;
            catalog.tensor(name, *dtype, shape, storage, 0)?;
            storages.push(storage);
        }
        for &(name, of) in &self.tied {
            let (_, dtype, shape, _) = &self.tensors[of];
            catalog.tensor(name, *dtype, shape, storages[of], 0)?;
        }
        for (key, value) in &self.metadata {
            catalog.metadata_text(key, value)?;
        }
        Ok(())
    }

    pub(crate) fn write(
        &self,
        given: &[(&str, &str)],
        target: &Target,
        context: &MemoryContext,
    ) -> Result<MemoryOutput> {
        let source = MemorySource::file("sample", Vec::new());
        let view = MemoryView::build("sample", &source, context, |catalog| self.fill(catalog))?;
        let format: &dyn Format = if self.is_saved_model { &SavedModel } else { &TfBundle };
        memory::write(format, &options(given), &view, target, context)
    }

    pub(crate) fn write_file(&self, given: &[(&str, &str)]) -> MemoryOutput {
        self.write(given, &Target::File("m".to_owned()), &MemoryContext::default()).unwrap()
    }
}

/// Returns the header and the entries of the index.
pub(crate) fn index(
    output: &MemoryOutput,
    path: &str,
) -> (BundleHeaderProto, Vec<(String, BundleEntryProto)>) {
    let source = MemorySource::file(path, output.files[path].clone());
    let table = Table::open(&source, FileId(0), &Limits::default()).unwrap();
    let (mut header, mut entries) = (None, Vec::new());
    table
        .for_each(&source, &mut |key, value, _| {
            if key.is_empty() {
                header = Some(BundleHeaderProto::decode(value).unwrap());
            } else {
                let key = String::from_utf8(key.to_vec()).unwrap();
                entries.push((key, BundleEntryProto::decode(value).unwrap()));
            }
            Ok(())
        })
        .unwrap();
    (header.unwrap(), entries)
}

/// Returns a context that provides these files at a path.
pub(crate) fn context_with(path: &str, entry: Entry, files: Files) -> MemoryContext {
    let mut context = MemoryContext::default();
    let source: Arc<dyn Source> = Arc::new(MemorySource::new(entry, files));
    context.sources.insert(path.to_owned(), source);
    context
}
