//! Files made of bytes, read and written by the format in memory.

use serde_json::Value;
use std::path::Path;
use tensorferry_gguf::Gguf;
use tensorferry_sdk::memory::{self, MemoryOutput, MemoryView};
use tensorferry_sdk::{Entry, MemoryContext, MemorySource, Purpose, Result, Source, Target};
use tensorferry_test_kit::fixtures::files_of;

/// A text as it lies in a file.
pub(crate) fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// A key and its value: the number of its type, then its bytes.
pub(crate) fn key(name: &str, kind: u32, bytes: &[u8]) -> Vec<u8> {
    [&text(name)[..], &kind.to_le_bytes(), bytes].concat()
}

/// A tensor of a list: dimensions as a file has them, the fastest first.
pub(crate) fn tensor(name: &str, dims: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut bytes = [&text(name)[..], &u32::try_from(dims.len()).unwrap().to_le_bytes()].concat();
    dims.iter().for_each(|dim| bytes.extend(dim.to_le_bytes()));
    bytes.extend(kind.to_le_bytes());
    bytes.extend(offset.to_le_bytes());
    bytes
}

/// A file of these, with padding up to 32 before the data where there are tensors.
pub(crate) fn file(keys: &[Vec<u8>], tensors: &[Vec<u8>], data: &[u8]) -> Vec<u8> {
    let counts = [tensors.len() as u64, keys.len() as u64].map(u64::to_le_bytes).concat();
    let mut bytes = [b"GGUF\x03\0\0\0", &counts[..], &keys.concat(), &tensors.concat()].concat();
    if !tensors.is_empty() {
        bytes.resize(bytes.len().next_multiple_of(32), 0);
    }
    bytes.extend(data);
    bytes
}

/// A case's files, pointed at as its expectation says.
pub(crate) fn source(folder: &Path, expected: &Value) -> MemorySource {
    MemorySource::new(
        Entry::File(expected["input"].as_str().unwrap().to_owned()),
        files_of(folder, expected, ""),
    )
}

/// Reads a source for a purpose and hands it on.
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

/// The message with which a file is refused.
pub(crate) fn refusal(bytes: &[u8]) -> String {
    with_view(&MemorySource::file("m.gguf", bytes), &[], Purpose::FLAT, |_| ()).unwrap_err().to_string()
}

/// Writes a view under these options as `out.gguf`.
pub(crate) fn write(view: &MemoryView<'_>, options: &[(&str, &str)]) -> Result<MemoryOutput> {
    let target = Target::File("out.gguf".to_owned());
    memory::write(&Gguf, &memory::pairs(options), view, &target, &MemoryContext::default())
}

/// What was written, to be read.
pub(crate) fn reopen(output: &MemoryOutput) -> MemorySource {
    MemorySource::file("out.gguf", output.files["out.gguf"].clone())
}
