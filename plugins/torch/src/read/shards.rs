//! Reads models that are split into several files. Each file contains a part of the state dict, and
//! no tensor is in two files. The tensors may be inside nested mappings. Mappings that have the
//! same key in several files are joined into one mapping.

use super::catalog_joiner::CatalogJoiner;
use super::{CatalogReader, STATE_DICT};
use std::collections::HashSet;
use std::mem::take;
use tensorferry_hub::Index;
use tensorferry_sdk::{CatalogSink, Error, Loss, LossKind, Node, NodeId, NodeKind, Result};
use tensorferry_torch_file::{Destination, FlattenedObject, Names, flatten};

/// Reads the files that an index names, and checks the index against the tensors in the files.
pub(super) fn read_indexed(reading: &mut CatalogReader<'_, '_>, index: &Index) -> Result<NodeId> {
    let files = index.files(reading.source)?;
    let root = read(reading, &files, Some(index))?;
    for key in &index.structured {
        let why = "the value in the index is a list or an object, and only text is kept";
        reading.to.catalog.loss(Loss::new(LossKind::Metadata, key, why))?;
    }
    reading.add_metadata(index.name(), &index.metadata)?;
    Ok(root)
}

/// Reads the files of a split model and returns the root node of the whole state dict.
pub(super) fn read(
    reading: &mut CatalogReader<'_, '_>,
    files: &[&str],
    index: Option<&Index>,
) -> Result<NodeId> {
    let mut mappings = Vec::with_capacity(files.len());
    let (mut held, mut left_out) = (Vec::new(), Vec::new());
    let Destination { catalog, storages, names, source, context } = &mut reading.to;
    let (source, context) = (*source, *context);
    let mut joiner = CatalogJoiner::new(&mut **catalog);
    let to = Destination { catalog: &mut joiner, storages, names, source, context };
    let mut parts = CatalogReader {
        source: reading.source,
        to,
        globals: take(&mut reading.globals),
        origin: reading.origin.take(),
        metadata: take(&mut reading.metadata),
        part_is_alone: true,
    };
    for &file in files {
        parts.to.context.check_cancelled()?;
        let flat = parts.part(file, index).map_err(|error| error.file(file))?;
        let entries = flat.entries.ok_or_else(|| {
            Error::malformed("a shard of the model is not a state dict")
                .file(file)
                .expected("a dict of tensors")
        })?;
        held.extend(flat.tensors.into_iter().map(|(name, _)| (name, file)));
        held.extend(parts.to.names.excluded().map(|name| (name.to_owned(), file)));
        left_out.push(parts.to.names.excluded().map(str::to_owned).collect::<HashSet<_>>());
        mappings.push(entries);
    }
    let CatalogReader { globals, origin, metadata, .. } = parts;
    (reading.globals, reading.origin, reading.metadata) = (globals, origin, metadata);
    if let Some(index) = index {
        let held = held.iter().map(|(name, file)| (name.as_str(), *file)).collect();
        index.check(&held, &HashSet::new(), &mut joiner, context)?;
    }
    for (entries, left_out) in mappings.iter_mut().zip(&left_out) {
        joiner.remove(entries, left_out);
    }
    let mappings: Vec<&[NodeId]> = mappings.iter().map(Vec::as_slice).collect();
    let entries = joiner.entries(&mappings)?;
    joiner.node(Node::container(NodeKind::MAP, STATE_DICT, entries))
}

impl CatalogReader<'_, '_> {
    /// Reads one file of a split model, except for the tensors that the index assigns to a
    /// different file.
    fn part(&mut self, file: &str, index: Option<&Index>) -> Result<FlattenedObject> {
        let object = self.open(self.extent(file)?)?;
        if let Some(archive) = object.archive() {
            self.side_record(file, archive)?;
        }
        let graph = object.graph();
        let keys = graph.entries(object.root()).into_iter().flatten();
        let names = keys.filter_map(|(key, _)| graph.text(key));
        // Without an index, the catalog rejects a name that is in two files.
        let left_out = names.filter(|name| index.is_some_and(|index| !index.reads(name, file)));
        *self.to.names = Names::excluding(left_out.map(str::to_owned));
        flatten(&object, object.root(), "", &mut self.to)
    }
}
