//! A model in several files is a state dict in parts: each file holds one, and no name is in two.

use super::{Reading, STATE_DICT};
use std::collections::{HashMap, HashSet};
use tensorferry_hub::Index;
use tensorferry_sdk::{Error, Loss, LossKind, Node, NodeId, NodeKind, Result};
use tensorferry_torch_file::Names;

/// Reads the files that an index names, and holds each against the other.
pub(super) fn read_indexed(reading: &mut Reading<'_, '_>, index: &Index) -> Result<NodeId> {
    let files = index.files(reading.source)?;
    let root = read(reading, &files, Some(index))?;
    for key in &index.structured {
        let why = "the index has a list or an object here, and only text can be carried";
        reading.to.catalog.loss(Loss::new(LossKind::Metadata, key, why))?;
    }
    reading.add_metadata(index.name(), &index.metadata)?;
    Ok(root)
}

/// Reads these files; the node of the whole state dict.
pub(super) fn read(reading: &mut Reading<'_, '_>, files: &[&str], index: Option<&Index>) -> Result<NodeId> {
    let mut entries = Vec::new();
    let mut held = Vec::new();
    for &file in files {
        reading.to.context.check_cancelled()?;
        // A name that another file has is an error, which the catalog finds.
        *reading.to.names = Names::default();
        let flat = reading.saved_object(file).map_err(|error| error.file(file))?;
        entries.extend(flat.entries.ok_or_else(|| {
            Error::malformed("a part of a model is not a state dict").file(file).expected("a dict of tensors")
        })?);
        held.extend(flat.tensors.into_iter().map(|(name, _)| (name, file)));
    }
    if let Some(index) = index {
        let held: HashMap<&str, &str> = held.iter().map(|(name, file)| (name.as_str(), *file)).collect();
        index.check(&held, &HashSet::new())?;
    }
    reading.to.catalog.node(Node::container(NodeKind::MAP, STATE_DICT, entries))
}
