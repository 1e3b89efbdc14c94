//! The reader: footers first, all of them, so that the schema is one; then each row group is a split.

mod column;
mod delta;
mod dictionary;
mod file;
mod footer;
mod header;
mod pages;
mod schema;
mod stream;

use crate::SUFFIXES;
use file::SourceFile;
use parquet::file::metadata::ParquetMetaData;
use std::sync::Arc;
use stream::RowGroup;
use tensorferry_sdk::arrow_schema::{Fields, SchemaRef};
use tensorferry_sdk::records::{Batched, Batches, RecordReader, RecordSet, Split};
use tensorferry_sdk::{Context, Entry, Error, Result, Source};

/// Reads files and folders of files.
pub(crate) struct Reader;

impl RecordReader for Reader {
    fn open(&self, source: Arc<dyn Source>, context: &dyn Context) -> Result<Box<dyn RecordSet>> {
        let mut files = Vec::new();
        for name in file_names(source.as_ref())? {
            context.check_cancelled()?;
            let file = SourceFile::open(&source, &name)?;
            let metadata = footer::read(&file, context.limits()).map_err(|error| error.file(&name))?;
            let fields = Fields::empty();
            files.push(OpenFile { file, metadata: Arc::new(metadata), fields });
        }
        let schema = schema::of_all(&mut files)?;
        let mut groups = Vec::new();
        let mut splits = Vec::new();
        for file in &files {
            if file.metadata.num_row_groups() == 0 {
                // Each file has a place among the splits.
                let name = file.file.name().to_owned();
                splits.push(Split { file: name, records: Some(0), ..Split::default() });
                groups.push(None);
            }
            for (index, group) in file.metadata.row_groups().iter().enumerate() {
                let ranges =
                    group.columns().iter().map(parquet::file::metadata::ColumnChunkMetaData::byte_range);
                splits.push(Split {
                    file: file.file.name().to_owned(),
                    offset: ranges.clone().map(|(start, _)| start).min().unwrap_or_default(),
                    bytes: ranges.map(|(_, len)| len).sum(),
                    records: u64::try_from(group.num_rows()).ok(),
                });
                groups.push(Some(RowGroup { file: file.clone(), index }));
            }
        }
        Ok(Box::new(Set { schema, groups, splits, most: context.limits().header_bytes }))
    }
}

/// A file whose footer was read and checked.
#[derive(Debug, Clone)]
struct OpenFile {
    file: SourceFile,
    metadata: Arc<ParquetMetaData>,
    /// What its columns are read as.
    fields: Fields,
}

struct Set {
    schema: SchemaRef,
    /// Of each split its row group; a file without rows may have none.
    groups: Vec<Option<RowGroup>>,
    splits: Vec<Split>,
    /// Bytes that a page, or what one row is decoded to, may have.
    most: u64,
}

impl RecordSet for Set {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    fn stream(&self, split: usize, request: &Batches) -> Result<Batched> {
        let group = self.groups.get(split).ok_or_else(|| Error::plugin(format!("no split {split}")))?;
        match group {
            Some(group) => stream::open(group, &self.schema, request, self.most),
            None => stream::empty(&self.schema, request),
        }
    }
}

/// The files of a source, in the order of their names.
///
/// # Errors
/// Malformed, if there are none.
fn file_names(source: &dyn Source) -> Result<Vec<String>> {
    let prefix = match source.entry() {
        Entry::File(name) => return Ok(vec![name.clone()]),
        Entry::Folder => "",
        Entry::Prefix(prefix) => prefix,
    };
    let names: Vec<String> = source.list(prefix)?.into_iter().filter(|name| is_member(name)).collect();
    if names.is_empty() {
        return Err(Error::malformed("no Parquet files here").expected(format!("*{}", SUFFIXES[0])));
    }
    Ok(names)
}

/// Whether a folder's file of this name is one of its data: not hidden, and no summary (`_metadata`).
pub(crate) fn is_member(name: &str) -> bool {
    let base = name.rsplit('/').next().unwrap_or(name);
    SUFFIXES.iter().any(|suffix| base.ends_with(suffix)) && !base.starts_with(['.', '_'])
}
