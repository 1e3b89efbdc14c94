//! Finds the locations of tensors in files. Each tensor that is stored contiguously and unchanged
//! has a file and an offset.

use std::collections::HashMap;
use tensorferry::inspect::Inspected;
use tensorferry_sdk::{Data, Source, StorageLocation};

/// The files of an input, and the locations of tensors in these files.
pub(super) struct TensorLocations {
    pub(super) files: Vec<String>,
    /// For each tensor, the index of its file and its offset in the file. `None` if the tensor is
    /// not stored contiguously.
    pub(super) of: Vec<Option<(usize, u64)>>,
}

impl TensorLocations {
    pub(super) fn of(inspected: &Inspected) -> Self {
        let (catalog, source) = (&inspected.catalog, &inspected.input.source);
        let mut files = Vec::new();
        let mut numbers = HashMap::new();
        let mut locate = |data: &Data| {
            let Data::Whole { storage, offset } = data else { return None };
            let StorageLocation::File { file, offset: start } = catalog.storage(*storage)?.location else {
                return None;
            };
            let number = *numbers.entry(file).or_insert_with(|| {
                files.push(source.name(file).to_owned());
                files.len() - 1
            });
            Some((number, start.checked_add(*offset)?))
        };
        let of = catalog.tensors().iter().map(|tensor| locate(&tensor.data)).collect();
        Self { files, of }
    }
}
