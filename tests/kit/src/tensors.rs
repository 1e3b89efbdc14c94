//! Functions that read and write the tensors of a format in memory.

use crate::Files;
use std::collections::BTreeMap;
use tensorferry_sdk::memory::{self, MemoryOutput, MemoryView, pairs};
use tensorferry_sdk::{
    Catalog, CatalogSink, Dtype, Format, MemoryContext, MemorySource, Result, Source, Storage, Target,
};

/// Reads a source with these options, and passes the view to `check`.
pub fn with_view<T>(
    format: &dyn Format,
    source: &dyn Source,
    options: &[(&str, &str)],
    check: impl FnOnce(&MemoryView<'_>) -> T,
) -> Result<T> {
    let context = MemoryContext::default();
    Ok(check(&MemoryView::read(format, &pairs(options), source, &context)?))
}

/// Returns the catalog of a folder.
pub fn catalog(format: &dyn Format, files: Files, options: &[(&str, &str)]) -> Result<Catalog> {
    with_view(format, &MemorySource::folder(files), options, |view| view.catalog().clone())
}

/// Returns each tensor's dtype, shape and bytes, by name.
pub fn contents(view: &MemoryView<'_>) -> Result<BTreeMap<String, (String, Vec<u64>, Vec<u8>)>> {
    let names = view.catalog().tensors().iter().map(|tensor| tensor.name.clone());
    names.map(|name| Ok((name.clone(), view.tensor_named(&name)?))).collect()
}

/// Returns the numbers of an F32 tensor.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// Writes the tensors that `fill` adds.
pub fn write(
    format: &dyn Format,
    fill: impl FnOnce(&mut dyn CatalogSink) -> Result<()>,
    options: &[(&str, &str)],
    target: &Target,
) -> Result<MemoryOutput> {
    let (source, context) = (MemorySource::file("model", []), MemoryContext::default());
    let view = MemoryView::build("model", &source, &context, fill)?;
    memory::write(format, &pairs(options), &view, target, &context)
}

/// Writes the tensors that `fill` adds as one file.
pub fn write_file(
    format: &dyn Format,
    fill: impl FnOnce(&mut dyn CatalogSink) -> Result<()>,
    options: &[(&str, &str)],
    path: &str,
) -> Result<MemoryOutput> {
    write(format, fill, options, &Target::File(path.to_owned()))
}

/// Adds a tensor with these bytes.
pub fn one(
    catalog: &mut dyn CatalogSink,
    name: &str,
    dtype: Dtype,
    shape: &[u64],
    bytes: &[u8],
) -> Result<()> {
    let storage = catalog.storage(Storage::inline(bytes))?;
    catalog.tensor(name, dtype, shape, storage, 0).map(drop)
}
