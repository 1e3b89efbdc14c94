//! Shared test helpers that build inputs by hand and read them.
#![expect(clippy::unwrap_used, reason = "tests")]

mod bundle;
mod objects;
mod sample;
mod table;

pub(crate) use bundle::{BIG_HEADER, BundleBytes, HEADER, string_bytes};
pub(crate) use objects::{Objects, variables};
pub(crate) use sample::{Sample, context_with, index};
pub(crate) use table::{BlockBytes, TableBytes, handle, table};
pub(crate) use tensorferry_sdk::memory::pairs as options;

use std::collections::BTreeMap;
use tensorferry_proto::tensor_shape_proto::Dim;
use tensorferry_proto::tensor_slice_proto::{Extent, extent::HasLength};
use tensorferry_proto::{TensorShapeProto, TensorSliceProto};
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{Entry, Format, Limits, MemoryContext, MemorySource, Result};
use tensorferry_test_kit::Files;
use tensorferry_test_kit::random::Random;

/// The dtype, shape and logical bytes of a tensor.
pub(crate) type Tensor = (String, Vec<u64>, Vec<u8>);

pub(crate) fn files<B: AsRef<[u8]>>(files: &[(&str, B)]) -> Files {
    files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.as_ref().to_vec())).collect()
}

pub(crate) fn source<B: AsRef<[u8]>>(entry: Entry, bytes: &[(&str, B)]) -> MemorySource {
    MemorySource::new(entry, files(bytes))
}

pub(crate) fn file(name: &str) -> Entry {
    Entry::File(name.to_owned())
}

/// Reads an input and passes the resulting view to `look`.
pub(crate) fn reading<T>(
    format: &dyn Format,
    source: &MemorySource,
    limits: &Limits,
    look: impl FnOnce(&MemoryView<'_>) -> Result<T>,
) -> Result<T> {
    let context = MemoryContext::new(limits.clone());
    look(&MemoryView::read(format, &[], source, &context)?)
}

/// Reads every tensor of an input.
pub(crate) fn tensors(view: &MemoryView<'_>) -> Result<BTreeMap<String, Tensor>> {
    let names = view.catalog().tensors().iter().map(|tensor| tensor.name.clone());
    names.map(|name| Ok((name.clone(), view.tensor_named(&name)?))).collect()
}

/// Returns the default limits, modified by `change`.
pub(crate) fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

pub(crate) fn shape(dims: &[i64]) -> TensorShapeProto {
    let dim = dims.iter().map(|&size| Dim { size, name: String::new() }).collect();
    TensorShapeProto { dim, unknown_rank: false }
}

/// Returns a slice with these starts and lengths. A length of -1 represents the whole dimension.
pub(crate) fn slice(extents: &[(i64, i64)]) -> TensorSliceProto {
    let extent = |&(start, length): &(i64, i64)| Extent {
        start,
        has_length: (length != -1).then_some(HasLength::Length(length)),
    };
    TensorSliceProto { extent: extents.iter().map(extent).collect() }
}

/// Returns the logical bytes of a string tensor.
pub(crate) fn strings<S: AsRef<[u8]>>(strings: &[S]) -> Vec<u8> {
    let element = |string: &S| {
        let string = string.as_ref();
        [&(string.len() as u64).to_le_bytes(), string].concat()
    };
    strings.iter().flat_map(element).collect()
}

/// Returns the logical bytes of a float tensor.
pub(crate) fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Overwrites a byte at a random position.
pub(crate) fn change(random: &mut Random, bytes: &mut [u8]) {
    let at = random.below(bytes.len());
    bytes[at] = u8::try_from(random.below(256)).unwrap();
}
