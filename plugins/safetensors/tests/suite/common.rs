//! Builds sources from bytes, and reads and writes them in memory.

use std::collections::BTreeMap;
use tensorferry_safetensors::Safetensors;
use tensorferry_sdk::memory::{self, MemoryOutput, MemoryView};
use tensorferry_sdk::{Entry, MemoryContext, MemorySource, Result, Source, Target};
use tensorferry_test_kit::tensors;

/// Builds a file from a header and data.
pub(crate) fn file(json: &str, data: &[u8]) -> Vec<u8> {
    [&(json.len() as u64).to_le_bytes(), json.as_bytes(), data].concat()
}

/// Builds a file that contains this metadata and these consecutive U8 tensors.
pub(crate) fn bytes_file(metadata: &str, tensors: &[(&str, &[u8])]) -> Vec<u8> {
    let mut json = format!("{{\"__metadata__\":{metadata}");
    let mut data = Vec::new();
    for (name, bytes) in tensors {
        let (begin, len) = (data.len(), bytes.len());
        json += &format!(
            ",{name:?}:{{\"dtype\":\"U8\",\"shape\":[{len}],\"data_offsets\":[{begin},{}]}}",
            begin + len
        );
        data.extend_from_slice(bytes);
    }
    file(&(json + "}"), &data)
}

/// Builds a folder that contains these files.
pub(crate) fn folder(files: &[(&str, Vec<u8>)]) -> MemorySource {
    MemorySource::new(
        Entry::Folder,
        files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone())).collect(),
    )
}

/// Reads a source and passes the resulting catalog view to `check`.
pub(crate) fn with_view<T>(
    source: &dyn Source,
    check: impl FnOnce(&MemoryView<'_>, &MemoryContext) -> T,
) -> Result<T> {
    let context = MemoryContext::default();
    let view = MemoryView::read(&Safetensors, &[], source, &context)?;
    Ok(check(&view, &context))
}

/// Returns the error message for an invalid source.
pub(crate) fn refusal(source: &dyn Source) -> String {
    with_view(source, |_, _| ()).unwrap_err().to_string()
}

/// Writes a catalog view with these options.
pub(crate) fn write(
    view: &MemoryView<'_>,
    options: &[(&str, &str)],
    target: &Target,
) -> Result<MemoryOutput> {
    memory::write(&Safetensors, &memory::pairs(options), view, target, &MemoryContext::default())
}

/// Reads a source and writes its content to a folder.
pub(crate) fn convert(source: &dyn Source, options: &[(&str, &str)]) -> Result<MemoryOutput> {
    with_view(source, |view, _| write(view, options, &Target::Folder))?
}

/// Opens a written folder as a source.
pub(crate) fn reopen(output: &MemoryOutput) -> MemorySource {
    MemorySource::folder(output.files.clone())
}

/// Returns the dtype, shape and bytes of each tensor, by name.
pub(crate) fn contents(view: &MemoryView<'_>) -> BTreeMap<String, (String, Vec<u64>, Vec<u8>)> {
    tensors::contents(view).unwrap()
}
