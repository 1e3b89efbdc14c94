//! Merges the tables of ranks that each wrote their own: each knows its own chunks of a tensor that is spread
//! over the ranks, and its own copy of what all of them have.

use crate::table::{ArchivePlace, Chunk, Content, Table, TableEntry};
use std::collections::{BTreeSet, HashMap, HashSet};
use tensorferry_sdk::{Context, Error, Result, Source};
use tensorferry_torch_file::Calls;

/// What all tables say together.
#[derive(Debug, Default)]
pub(crate) struct MergedTables {
    pub(crate) items: Vec<TableEntry>,
    /// What later ranks have of an object: the item, and where it lies.
    pub(crate) copies: Vec<(usize, ArchivePlace)>,
    /// Names of what is stored although nothing says what it is.
    pub(crate) unlisted: BTreeSet<String>,
    /// Every function and class that the pickles would have looked up.
    pub(crate) globals: BTreeSet<String>,
    /// What they would have called.
    pub(crate) calls: Calls,
    places: HashMap<String, usize>,
    chunks: HashSet<ChunkKey>,
}

/// The item, and the chunk's offsets and sizes.
type ChunkKey = (usize, Vec<u64>, Vec<u64>);

/// Reads the tables and merges them.
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

    /// Adds what one more rank says of an item.
    fn merge(&mut self, place: usize, other: TableEntry) -> Result<()> {
        let TableEntry { name, content, .. } = other;
        match (&mut self.items[place].content, content) {
            (Content::Object(_), Content::Object(stored)) => self.copies.push((place, stored)),
            (Content::Tensor(tensor), Content::Tensor(other))
                if tensor.dtype == other.dtype && tensor.size == other.size =>
            {
                let chunks = &mut self.chunks;
                // What all ranks have is the same chunk in each table: one of them is read.
                tensor
                    .chunks
                    .extend(other.chunks.into_iter().filter(|chunk| chunks.insert(key(place, chunk))));
            }
            (Content::Tensor(tensor), Content::Tensor(other)) => {
                return Err(Error::malformed("the ranks' tables differ in a tensor")
                    .tensor(name)
                    .expected(format!("{} {:?}", tensor.dtype.name, tensor.size))
                    .found(format!("{} {:?}", other.dtype.name, other.size)));
            }
            _ => {
                let error = Error::malformed("a tensor in one rank's table is another object in this one");
                return Err(error.tensor(name));
            }
        }
        Ok(())
    }
}

fn key(place: usize, chunk: &Chunk) -> ChunkKey {
    (place, chunk.offsets.clone(), chunk.sizes.clone())
}
