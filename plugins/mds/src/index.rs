//! `index.json`, which lists the shards and the columns of a dataset. All shards have the same
//! columns.

use crate::INDEX;
use crate::codec::Codec;
use crate::encoding::Encoding;
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use tensorferry_sdk::{Error, Limits, Result, Source, check_name};

/// The only existing version of the format.
const VERSION: u64 = 2;

#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) columns: Vec<Column>,
    pub(crate) shards: Vec<Shard>,
}

/// A column of the dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) encoding: Encoding,
    /// Name of the encoding.
    pub(crate) word: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Shard {
    pub(crate) samples: u64,
    pub(crate) raw: File,
    /// Codec and file of the compressed shard, if the shard is compressed.
    pub(crate) zip: Option<(Codec, File)>,
}

/// A file that the index lists.
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
    pub(crate) fn read(source: &dyn Source, name: &str, limits: &Limits) -> Result<Self> {
        let file = source.open(name)?;
        let text = source.read_vec(file, 0, source.len(file), limits)?;
        parse(&text, limits).map_err(|error| error.file(name))
    }

    /// Returns the path of the index in the same folder as a file.
    pub(crate) fn sibling_name(name: &str) -> String {
        name.rsplit_once('/').map_or(INDEX.to_owned(), |(folder, _)| format!("{folder}/{INDEX}"))
    }
}

fn parse(text: &[u8], limits: &Limits) -> Result<Index> {
    let document: Document = serde_json::from_slice(text).map_err(|error| {
        Error::malformed(format!("the index is invalid: {}", error.to_string().escape_debug()))
    })?;
    check_version(document.version)?;
    if document.shards.len() as u64 > limits.entries {
        let expected = format!("at most {}", limits.entries);
        return Err(Error::limit("too many shards")
            .hint("pass --limit entries=N to allow more")
            .expected(expected)
            .found(document.shards.len()));
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
            let error = Error::malformed("the columns differ from those of the first shard");
            return Err(at(error.expected(of(&index.columns)).found(of(&columns))));
        }
        let is_new = names.insert(shard.raw.basename.clone());
        if !is_new || shard.zip.as_ref().is_some_and(|(_, zip)| !names.insert(zip.basename.clone())) {
            let error = Error::malformed("two shards have the same name");
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
    Err(Error::unsupported("unsupported index version").expected(VERSION).found(version))
}

impl Entry {
    fn parse(self, limits: &Limits) -> Result<(Vec<Column>, Shard)> {
        check_version(self.version)?;
        if self.format != "mds" {
            let error = Error::unsupported("unsupported shard format");
            return Err(error.expected("mds").found(format!("{:?}", self.format)));
        }
        let lacks = |what: &str| Error::malformed(format!("missing {what}"));
        let names = self.column_names.ok_or_else(|| lacks("column_names"))?;
        let encodings = self.column_encodings.ok_or_else(|| lacks("column_encodings"))?;
        let sizes = self.column_sizes.ok_or_else(|| lacks("column_sizes"))?;
        if names.len() != encodings.len() || names.len() != sizes.len() {
            return Err(Error::malformed("different numbers of column names, encodings and sizes").found(
                format!("{} names, {} encodings, {} sizes", names.len(), encodings.len(), sizes.len()),
            ));
        }
        if names.len() as u64 > limits.columns {
            let expected = format!("at most {}", limits.columns);
            return Err(Error::limit("too many columns")
                .hint("pass --limit columns=N to allow more")
                .expected(expected)
                .found(names.len()));
        }
        let mut seen = HashSet::new();
        let mut columns = Vec::with_capacity(names.len());
        for ((name, word), size) in names.into_iter().zip(encodings).zip(sizes) {
            let encoding = Encoding::parse(&word).map_err(|error| error.column(&name))?;
            // For the `mosaicml-streaming` library, a size of 0 means that the size is not fixed.
            if encoding.size() != size.filter(|size| *size > 0) {
                return Err(Error::malformed("the size of a column does not match its encoding")
                    .column(name)
                    .expected(format!("{:?} for {word:?}", encoding.size()))
                    .found(format!("{size:?}")));
            }
            if !seen.insert(name.clone()) {
                return Err(Error::malformed("two columns have the same name").column(name));
            }
            columns.push(Column { name, encoding, word });
        }
        let raw = self.raw_data.ok_or_else(|| lacks("raw_data"))?;
        let zip = match (self.compression.filter(|word| !word.is_empty()), self.zip_data) {
            (Some(word), Some(zip)) => Some((Codec::of(&word)?, zip)),
            (None, None) => None,
            (Some(_), None) => return Err(lacks("zip_data of a compressed shard")),
            (None, Some(_)) => return Err(lacks("compression of a shard with zip_data")),
        };
        for file in [Some(&raw), zip.as_ref().map(|(_, zip)| zip)].into_iter().flatten() {
            check_name(&file.basename)?;
        }
        let samples = self.samples.ok_or_else(|| lacks("samples"))?;
        Ok((columns, Shard { samples, raw, zip }))
    }
}
