//! Builds models by hand, field by field, and sources that contain them.

use std::collections::BTreeMap;
use std::path::Path;
use tensorferry_onnx::Onnx;
use tensorferry_proto::wire::put_varint;
use tensorferry_sdk::{Entry, MemorySource, Result, Source};
use tensorferry_test_kit::fixtures::files_below;
use tensorferry_test_kit::tensors::{self, with_view};

/// Returns a length-delimited field.
pub(crate) fn field(number: u64, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, number << 3 | 2);
    put_varint(&mut bytes, content.len() as u64);
    bytes.extend(content);
    bytes
}

/// Returns a varint field.
pub(crate) fn number(number: u64, value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_varint(&mut bytes, number << 3);
    put_varint(&mut bytes, value);
    bytes
}

/// Returns a `TensorProto` with this dtype and shape, followed by `rest`.
pub(crate) fn tensor(name: &str, data_type: u64, dims: &[u64], rest: &[u8]) -> Vec<u8> {
    let dims = dims.iter().flat_map(|&dim| number(1, dim));
    dims.chain(number(2, data_type)).chain(rest.iter().copied()).chain(field(8, name.as_bytes())).collect()
}

/// Returns the fields of a tensor whose elements are in a separate file.
pub(crate) fn outside(entries: &[(&str, &str)]) -> Vec<u8> {
    let entries = entries
        .iter()
        .flat_map(|(key, value)| field(13, &[field(1, key.as_bytes()), field(2, value.as_bytes())].concat()));
    entries.chain(number(14, 1)).collect()
}

/// Returns a model whose graph has these initializers and these additional fields.
pub(crate) fn model(initializers: &[Vec<u8>], graph: &[u8]) -> Vec<u8> {
    let initializers = initializers.iter().flat_map(|tensor| field(5, tensor));
    let graph: Vec<u8> =
        field(2, b"g").into_iter().chain(initializers).chain(graph.iter().copied()).collect();
    [number(1, 10), field(2, b"by hand"), field(7, &graph)].concat()
}

/// Returns a source with a model in a folder that also contains other files.
pub(crate) fn source(model: &[u8], others: &[(&str, &[u8])]) -> MemorySource {
    let others = others.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec()));
    let files: BTreeMap<_, _> = others.chain([("m.onnx".to_owned(), model.to_vec())]).collect();
    MemorySource::new(Entry::File("m.onnx".to_owned()), files)
}

/// Returns the files of a fixture. The expectation specifies the entry.
pub(crate) fn case_source(folder: &Path, expected: &serde_json::Value) -> MemorySource {
    // Only the files next to the model are part of the source.
    let input = expected["input"].as_str().unwrap();
    let (below, name) = input.rsplit_once('/').unwrap_or(("", input));
    let files = files_below(&folder.join(below)).into_iter().filter(|(name, _)| !name.contains('/'));
    MemorySource::new(Entry::File(name.to_owned()), files.collect())
}

/// Returns the dtype, shape and bytes of each tensor, by name.
pub(crate) fn contents(source: &dyn Source) -> Result<BTreeMap<String, (String, Vec<u64>, Vec<u8>)>> {
    with_view(&Onnx, source, &[], tensors::contents)?
}
