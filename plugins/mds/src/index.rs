//! `index.json`: the shards of a set, and the columns that all of them have.

use crate::INDEX;
use crate::codec::Codec;
use crate::encoding::Encoding;
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use tensorferry_sdk::{Error, Limits, Result, Source, check_name};

/// The version that there is.
const VERSION: u64 = 2;

/// What an index says.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) columns: Vec<Column>,
    pub(crate) shards: Vec<Shard>,
}

/// A column of all shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) encoding: Encoding,
    /// The encoding's name.
    pub(crate) word: String,
}

/// A shard.
#[derive(Debug, Clone)]
pub(crate) struct Shard {
    pub(crate) samples: u64,
    pub(crate) raw: File,
    /// Its compressed form, if it has one.
    pub(crate) zip: Option<(Codec, File)>,
}

/// A file, as the index knows it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct File {
    pub(crate) basename: String,
    pub(crate) bytes: u64,
    #[serde(default)]
    pub(crate) hashes: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Document {
    version: u64,
    shards: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    version: u64,
    format: String,
    samples: Option<u64>,
    column_names: Option<Vec<String>>,
    column_encodings: Option<Vec<String>>,
    column_sizes: Option<Vec<Option<u64>>>,
    compression: Option<String>,
    raw_data: Option<File>,
    zip_data: Option<File>,
}

impl Index {
    /// Reads the index of a source.
    pub(crate) fn read(source: &dyn Source, name: &str, limits: &Limits) -> Result<Self> {
        let file = source.open(name)?;
        let text = source.read_vec(file, 0, source.len(file), limits)?;
        parse(&text, limits).map_err(|error| error.file(name))
    }

    /// The name of the index of the folder that a file lies in.
    pub(crate) fn beside(name: &str) -> String {
        name.rsplit_once('/').map_or(INDEX.to_owned(), |(folder, _)| format!("{folder}/{INDEX}"))
    }
}

fn parse(text: &[u8], limits: &Limits) -> Result<Index> {
    let document: Document = serde_json::from_slice(text).map_err(|error| {
        Error::malformed(format!("not an index of shards: {}", error.to_string().escape_debug()))
    })?;
    check_version(document.version)?;
    if document.shards.len() as u64 > limits.entries {
        let expected = format!("at most {}, or --bound entries=N", limits.entries);
        return Err(Error::limit("too many shards").expected(expected).found(document.shards.len()));
    }
    let mut index = Index { columns: Vec::new(), shards: Vec::new() };
    let mut names = HashSet::new();
    for (number, entry) in document.shards.into_iter().enumerate() {
        let at = |error: Error| error.context(format!("shard {number}"));
        let (columns, shard) = entry.parse(limits).map_err(at)?;
        if number == 0 {
            index.columns = columns;
        } else if index.columns != columns {
            let of = |columns: &[Column]| {
                let column = |column: &Column| format!("{}: {}", column.name, column.word);
                columns.iter().map(column).collect::<Vec<_>>().join(", ")
            };
            let error = Error::malformed("it has other columns than the first one");
            return Err(at(error.expected(of(&index.columns)).found(of(&columns))));
        }
        let is_new = names.insert(shard.raw.basename.clone());
        if !is_new || shard.zip.as_ref().is_some_and(|(_, zip)| !names.insert(zip.basename.clone())) {
            let error = Error::malformed("two shards of one name");
            return Err(at(error.found(format!("{:?}", shard.raw.basename))));
        }
        index.shards.push(shard);
    }
    Ok(index)
}

fn check_version(version: u64) -> Result<()> {
    if version == VERSION {
        return Ok(());
    }
    Err(Error::unsupported("another version of the index").expected(VERSION).found(version))
}

impl Entry {
    fn parse(self, limits: &Limits) -> Result<(Vec<Column>, Shard)> {
        check_version(self.version)?;
        if self.format != "mds" {
            let error = Error::unsupported("shards of another format: only mds is read");
            return Err(error.expected("mds").found(format!("{:?}", self.format)));
        }
        let lacks = |what: &str| Error::malformed(format!("it has no {what}"));
        let names = self.column_names.ok_or_else(|| lacks("column_names"))?;
        let encodings = self.column_encodings.ok_or_else(|| lacks("column_encodings"))?;
        let sizes = self.column_sizes.ok_or_else(|| lacks("column_sizes"))?;
        if names.len() != encodings.len() || names.len() != sizes.len() {
            return Err(Error::malformed("its columns have not as many names, encodings and sizes").found(
                format!("{} names, {} encodings, {} sizes", names.len(), encodings.len(), sizes.len()),
            ));
        }
        if names.len() as u64 > limits.columns {
            let expected = format!("at most {}, or --bound columns=N", limits.columns);
            return Err(Error::limit("too many columns").expected(expected).found(names.len()));
        }
        let mut seen = HashSet::new();
        let mut columns = Vec::with_capacity(names.len());
        for ((name, word), size) in names.into_iter().zip(encodings).zip(sizes) {
            let encoding = Encoding::parse(&word).map_err(|error| error.column(&name))?;
            // The library takes a 0 for none.
            if encoding.size() != size.filter(|size| *size > 0) {
                return Err(Error::malformed("a column's size is not that of its encoding")
                    .column(name)
                    .expected(format!("{:?} for {word:?}", encoding.size()))
                    .found(format!("{size:?}")));
            }
            if !seen.insert(name.clone()) {
                return Err(Error::malformed("two columns of one name").column(name));
            }
            columns.push(Column { name, encoding, word });
        }
        let raw = self.raw_data.ok_or_else(|| lacks("raw_data"))?;
        let zip = match (self.compression.filter(|word| !word.is_empty()), self.zip_data) {
            (Some(word), Some(zip)) => Some((Codec::of(&word)?, zip)),
            (None, None) => None,
            (Some(_), None) => return Err(lacks("zip_data, though it is compressed")),
            (None, Some(_)) => return Err(lacks("compression, though it has zip_data")),
        };
        for file in [Some(&raw), zip.as_ref().map(|(_, zip)| zip)].into_iter().flatten() {
            check_name(&file.basename)?;
        }
        let samples = self.samples.ok_or_else(|| lacks("samples"))?;
        Ok((columns, Shard { samples, raw, zip }))
    }
}
