//! Helpers that build files from bytes, and read and write them in memory.

use serde_json::Value;
use std::path::Path;
use tensorferry_gguf::Gguf;
use tensorferry_sdk::memory::{self, MemoryOutput, MemoryView};
use tensorferry_sdk::{Entry, MemoryContext, MemorySource, Purpose, Result, Source, Target};
use tensorferry_test_kit::fixtures::files_of;

/// Encodes a string.
pub(crate) fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// Encodes a metadata entry, which consists of the key, the type code and the bytes of the value.
pub(crate) fn key(name: &str, kind: u32, bytes: &[u8]) -> Vec<u8> {
    [&text(name)[..], &kind.to_le_bytes(), bytes].concat()
}

/// Encodes a tensor entry. `dims` is in file order, in which the first dimension varies fastest.
pub(crate) fn tensor(name: &str, dims: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut bytes = [&text(name)[..], &u32::try_from(dims.len()).unwrap().to_le_bytes()].concat();
    dims.iter().for_each(|dim| bytes.extend(dim.to_le_bytes()));
    bytes.extend(kind.to_le_bytes());
    bytes.extend(offset.to_le_bytes());
    bytes
}

/// Builds a file. If the file has tensors, pads the header to a multiple of 32 bytes.
pub(crate) fn file(keys: &[Vec<u8>], tensors: &[Vec<u8>], data: &[u8]) -> Vec<u8> {
    let counts = [tensors.len() as u64, keys.len() as u64].map(u64::to_le_bytes).concat();
    let mut bytes = [b"GGUF\x03\0\0\0", &counts[..], &keys.concat(), &tensors.concat()].concat();
    if !tensors.is_empty() {
        bytes.resize(bytes.len().next_multiple_of(32), 0);
    }
    bytes.extend(data);
    bytes
}

/// Returns the files of a fixture as a source whose entry is the input in `expected`.
pub(crate) fn source(folder: &Path, expected: &Value) -> MemorySource {
    MemorySource::new(
        Entry::File(expected["input"].as_str().unwrap().to_owned()),
        files_of(folder, expected, ""),
    )
}

/// Reads a source for this purpose, and passes the view to `check`.
pub(crate) fn with_view<T>(
    source: &dyn Source,
    options: &[(&str, &str)],
    purpose: Purpose,
    check: impl FnOnce(&MemoryView<'_>) -> T,
) -> Result<T> {
    let mut context = MemoryContext::default();
    context.purpose = purpose;
    Ok(check(&MemoryView::read(&Gguf, &memory::pairs(options), source, &context)?))
}

/// Returns the error message for an invalid file with these bytes.
pub(crate) fn refusal(bytes: &[u8]) -> String {
    with_view(&MemorySource::file("m.gguf", bytes), &[], Purpose::FLAT, |_| ()).unwrap_err().to_string()
}

/// Writes a view as `out.gguf` with these options.
pub(crate) fn write(view: &MemoryView<'_>, options: &[(&str, &str)]) -> Result<MemoryOutput> {
    let target = Target::File("out.gguf".to_owned());
    memory::write(&Gguf, &memory::pairs(options), view, &target, &MemoryContext::default())
}

/// Returns a source that contains the written file.
pub(crate) fn reopen(output: &MemoryOutput) -> MemorySource {
    MemorySource::file("out.gguf", output.files["out.gguf"].clone())
}
