//! Merges the tables of ranks that saved without coordination. Each rank's table lists the rank's
//! own chunks of distributed tensors. The table also lists the rank's own copies of the objects
//! that every rank saves.

use crate::table::{ArchiveLocation, Chunk, Content, Table, TableEntry};
use std::collections::{BTreeSet, HashMap, HashSet};
use tensorferry_sdk::{Context, Error, Result, Source};
use tensorferry_torch_file::Calls;

/// The combined content of all tables.
#[derive(Debug, Default)]
pub(crate) struct MergedTables {
    pub(crate) items: Vec<TableEntry>,
    /// Copies of an object from additional ranks. Each entry contains the index of the object in
    /// `items` and the location of the copy.
    pub(crate) copies: Vec<(usize, ArchiveLocation)>,
    /// Names for which the tables record a location but no description.
    pub(crate) unlisted: BTreeSet<String>,
    /// All functions and classes named in the pickles.
    pub(crate) globals: BTreeSet<String>,
    /// Calls found in the pickles of the tables.
    pub(crate) calls: Calls,
    places: HashMap<String, usize>,
    chunks: HashSet<ChunkKey>,
}

/// Identifies a chunk by the index of its tensor in `items`, its offsets and its sizes.
type ChunkKey = (usize, Vec<u64>, Vec<u64>);

pub(crate) fn read(source: &dyn Source, tables: &[String], context: &dyn Context) -> Result<MergedTables> {
    let mut merged = MergedTables::default();
    for name in tables {
        let table = Table::read(source, name, context, &mut merged.calls);
        let table = table.and_then(|table| merged.add(table));
        table.map_err(|error| error.file(name))?;
    }
    Ok(merged)
}

impl MergedTables {
    fn add(&mut self, table: Table) -> Result<()> {
        self.globals.extend(table.globals);
        self.unlisted.extend(table.unlisted);
        for item in table.items {
            match self.places.get(&item.name) {
                Some(&place) => self.merge(place, item)?,
                None => {
                    let place = self.items.len();
                    if let Content::Tensor(tensor) = &item.content {
                        self.chunks.extend(tensor.chunks.iter().map(|chunk| key(place, chunk)));
                    }
                    self.places.insert(item.name.clone(), place);
                    self.items.push(item);
                }
            }
        }
        Ok(())
    }

    /// Merges a table entry of another rank into the item with the same name.
    fn merge(&mut self, place: usize, other: TableEntry) -> Result<()> {
        let TableEntry { name, content, .. } = other;
        match (&mut self.items[place].content, content) {
            (Content::Object(_), Content::Object(stored)) => self.copies.push((place, stored)),
            (Content::Tensor(tensor), Content::Tensor(other))
                if tensor.dtype == other.dtype && tensor.size == other.size =>
            {
                let chunks = &mut self.chunks;
                // If several tables list the same chunk, it is read only once.
                tensor
                    .chunks
                    .extend(other.chunks.into_iter().filter(|chunk| chunks.insert(key(place, chunk))));
            }
            (Content::Tensor(tensor), Content::Tensor(other)) => {
                return Err(Error::malformed("the ranks' tables disagree about a tensor")
                    .tensor(name)
                    .expected(format!("{} {:?}", tensor.dtype.name, tensor.size))
                    .found(format!("{} {:?}", other.dtype.name, other.size)));
            }
            _ => {
                let error =
                    Error::malformed("a tensor in one rank's table is an object in this one, or vice versa");
                return Err(error.tensor(name));
            }
        }
        Ok(())
    }
}

fn key(place: usize, chunk: &Chunk) -> ChunkKey {
    (place, chunk.offsets.clone(), chunk.sizes.clone())
}
