//! Catalogs for the tests of the writers, and what they made of them.
#![expect(clippy::unwrap_used, reason = "tests")]

use super::BundleWriter;
use crate::options;
use crate::saved_model::SavedModelWriter;
use crate::table::Table;
use std::collections::BTreeMap;
use std::sync::Arc;
use tensorferry_proto::{BundleEntryProto, BundleHeaderProto, Message};
use tensorferry_sdk::memory::{self, MemoryOutput, MemoryView};
use tensorferry_sdk::*;

/// Tensors, and as a format one of our writers.
#[derive(Clone, Default)]
pub(crate) struct Sample {
    pub(crate) tensors: Vec<(&'static str, Dtype, Vec<u64>, Vec<u8>)>,
    /// Names of other tensors' bytes: (name, of).
    pub(crate) tied: Vec<(&'static str, usize)>,
    pub(crate) metadata: Vec<(&'static str, String)>,
    /// Whether it is written as a SavedModel.
    pub(crate) is_saved_model: bool,
}

impl Format for Sample {
    fn describe(&self) -> Description {
        let options = if self.is_saved_model { options::of_saved_models() } else { options::of_bundles() };
        Description { id: "sample".to_owned(), options, ..Description::default() }
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        if self.is_saved_model {
            return Ok(Box::new(SavedModelWriter::new(options)?));
        }
        Ok(Box::new(BundleWriter::new(options)?))
    }
}

impl Sample {
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
            catalog.metadata(key, value)?;
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
        let view = MemoryView::made("sample", &source, context, |catalog| self.fill(catalog))?;
        let given: Vec<_> = given.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        memory::write(self, &given, &view, target, context)
    }

    pub(crate) fn write_file(&self, given: &[(&str, &str)]) -> MemoryOutput {
        self.write(given, &Target::File("m".to_owned()), &MemoryContext::default()).unwrap()
    }
}

pub(crate) fn strings(elements: &[&[u8]]) -> Vec<u8> {
    elements.iter().flat_map(|s| [&(s.len() as u64).to_le_bytes()[..], s].concat()).collect()
}

/// The header and the entries of the index.
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

pub(crate) fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A context that finds what was written, or these files, under a path.
pub(crate) fn context_with(path: &str, entry: Entry, files: BTreeMap<String, Vec<u8>>) -> MemoryContext {
    let mut context = MemoryContext::default();
    let source: Arc<dyn Source> = Arc::new(MemorySource::new(entry, files));
    context.sources.insert(path.to_owned(), source);
    context
}
