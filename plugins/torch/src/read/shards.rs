//! A model in several files is a state dict in parts: each file holds one, and no tensor is in two. A part may have its
//! tensors in mappings: what files have under one key is one mapping.

use super::joined::Joined;
use super::{Reading, STATE_DICT};
use std::collections::{HashMap, HashSet};
use std::mem::take;
use tensorferry_hub::Index;
use tensorferry_sdk::{CatalogSink, Error, Loss, LossKind, Node, NodeId, NodeKind, Result};
use tensorferry_torch_file::{Destination, Names};

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
    let mut mappings = Vec::with_capacity(files.len());
    let mut held = Vec::new();
    let Destination { catalog, storages, names, context } = &mut reading.to;
    let mut joined = Joined::new(&mut **catalog);
    let to = Destination { catalog: &mut joined, storages, names, context: *context };
    let mut parts = Reading {
        source: reading.source,
        to,
        globals: take(&mut reading.globals),
        origin: reading.origin.take(),
        metadata: take(&mut reading.metadata),
    };
    for &file in files {
        parts.to.context.check_cancelled()?;
        // A name that another file has is an error, which the catalog finds.
        *parts.to.names = Names::default();
        let flat = parts.saved_object(file).map_err(|error| error.file(file))?;
        mappings.push(flat.entries.ok_or_else(|| {
            Error::malformed("a part of a model is not a state dict").file(file).expected("a dict of tensors")
        })?);
        held.extend(flat.tensors.into_iter().map(|(name, _)| (name, file)));
    }
    let Reading { globals, origin, metadata, .. } = parts;
    (reading.globals, reading.origin, reading.metadata) = (globals, origin, metadata);
    if let Some(index) = index {
        let held: HashMap<&str, &str> = held.iter().map(|(name, file)| (name.as_str(), *file)).collect();
        index.check(&held, &HashSet::new())?;
    }
    let mappings: Vec<&[NodeId]> = mappings.iter().map(Vec::as_slice).collect();
    let entries = joined.entries(&mappings)?;
    joined.node(Node::container(NodeKind::MAP, STATE_DICT, entries))
}
