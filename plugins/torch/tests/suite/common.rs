//! Builds archives and pickles byte by byte, and reads them with the SDK's in-memory host.

use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{Catalog, Limits, MemoryContext, MemorySource, Result};
use tensorferry_torch::Torch;

pub(crate) fn catalog(bytes: &[u8]) -> Result<Catalog> {
    with_limits(bytes, Limits::default())
}

pub(crate) fn with_limits(bytes: &[u8], limits: Limits) -> Result<Catalog> {
    let source = MemorySource::file("model.pt", bytes);
    let context = MemoryContext::new(limits);
    MemoryView::read(&Torch, &[], &source, &context).map(|view| view.catalog().clone())
}

/// Reads a file and all of its tensors.
pub(crate) fn read_all(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>> {
    let source = MemorySource::file("model.pt", bytes);
    let context = MemoryContext::default();
    let view = MemoryView::read(&Torch, &[], &source, &context)?;
    let names = view.catalog().tensors().iter().map(|tensor| tensor.name.clone());
    names.map(|name| view.tensor_named(&name).map(|(_, _, bytes)| (name.clone(), bytes))).collect()
}

/// Reads an invalid file and returns the error message.
pub(crate) fn error(bytes: &[u8]) -> String {
    catalog(bytes).unwrap_err().to_string()
}
