//! The reader first reads the footers of all files and determines a common schema. Each row group
//! is one split.

mod arrow_hint;
mod claims;
mod codec;
mod column;
mod delta;
mod dictionary;
mod file;
mod footer;
mod header;
mod int96;
mod interval;
mod leaves;
mod levels;
mod memory;
mod old_writer;
mod pages;
pub(crate) mod partitions;
mod parts;
mod schema;
mod snappy;
mod statistics;
mod stream;
mod text;
mod thrift;
mod windows;

use crate::fault::catch_panic;
use crate::options::Int96Unit;
use crate::{SUFFIXES, logical};
use file::SourceFile;
use int96::Int96Units;
use memory::ReadMemory;
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::SchemaDescPtr;
use partitions::{DataFile, Partitions};
use statistics::BoundsCache;
use std::sync::Arc;
use stream::RowGroup;
use tensorferry_sdk::arrow_schema::{Fields, SchemaRef};
use tensorferry_sdk::file_name::{self, entry_files};
use tensorferry_sdk::records::{BatchStream, ExpansionLimit, RecordReader, RecordSet, ScanRequest, Split};
use tensorferry_sdk::{Context, Entry, Error, Limits, LossSink, Result, Source};

/// Maximum number of values per byte of a file. A few bytes can encode many values, such as nulls,
/// and decoding each value takes time. In a row group of 2^20 nulls from pyarrow, the ratio is a
/// tenth of this maximum.
const MAX_VALUES_PER_BYTE: u64 = 1 << 16;

pub(crate) struct Reader(pub(crate) Int96Unit);

impl RecordReader for Reader {
    fn open(
        &self,
        source: Arc<dyn Source>,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>> {
        let mut files = Vec::new();
        let members = members(source.as_ref(), context)?;
        let mut free_values = footer::extra_values(context.limits());
        for DataFile { name, .. } in &members {
            context.check_cancelled()?;
            let file = SourceFile::open(&source, name)?;
            let metadata = footer::read(&file, context.limits(), &mut free_values);
            let metadata = metadata.map_err(|error| error.file(name))?;
            let schema = metadata.file_metadata().schema_descr();
            let schema =
                catch_panic(|| logical::without_intervals(schema)).map_err(|error| error.file(name))?;
            files.push(OpenFile {
                file,
                metadata: Arc::new(metadata),
                schema: Arc::new(schema),
                fields: Fields::empty(),
                int96: Arc::default(),
                bounds: Arc::default(),
            });
        }
        let own = schema::of_all(&mut files, self.0, context.limits(), losses)?;
        let (partitions, schema) = Partitions::new(&members, &own)?;
        let mut groups = Vec::new();
        let mut splits = Vec::new();
        for (number, file) in files.iter().enumerate() {
            if file.metadata.num_row_groups() == 0 {
                // A file without row groups still needs a split.
                let name = file.file.name().to_owned();
                splits.push(Split { file: name, records: Some(0), ..Split::default() });
                groups.push((number, None));
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
                groups.push((number, Some(RowGroup { file: file.clone(), index })));
            }
        }
        let limits = context.limits();
        let bytes = files.iter().map(|file| file.file.len()).sum();
        let expansion = Arc::new(ExpansionLimit::new(bytes, limits, splits.len()));
        let memory = Arc::new(ReadMemory::new(limits, context.threads(), splits.len()));
        let limits = limits.clone();
        Ok(Box::new(ParquetSet { schema, own, partitions, groups, splits, limits, expansion, memory }))
    }
}

/// A file whose footer has been read and checked.
#[derive(Debug, Clone)]
struct OpenFile {
    file: SourceFile,
    metadata: Arc<ParquetMetaData>,
    /// The schema that is passed to the `parquet` crate.
    schema: SchemaDescPtr,
    /// Arrow fields of the columns that the `parquet` crate decodes.
    fields: Fields,
    /// Units of the INT96 columns.
    int96: Arc<Int96Units>,
    /// Cached bounds of the leaf columns that scans compare with values.
    bounds: Arc<BoundsCache>,
}

struct ParquetSet {
    schema: SchemaRef,
    /// Columns that are stored in the files.
    own: SchemaRef,
    /// Columns whose values are taken from folder names.
    partitions: Partitions,
    /// File index and row group of each split. The split of a file without row groups has `None`.
    groups: Vec<(usize, Option<RowGroup>)>,
    splits: Vec<Split>,
    limits: Limits,
    /// Limit on the total number of decoded bytes in all rows.
    expansion: Arc<ExpansionLimit>,
    memory: Arc<ReadMemory>,
}

impl RecordSet for ParquetSet {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// Skips row groups whose statistics exclude all matches, and pages that contain no requested
    /// rows.
    fn scan(&self, split: usize, scan: &ScanRequest) -> Result<BatchStream> {
        let missing = || Error::plugin(format!("no split {split}"));
        let (file, group) = self.groups.get(split).ok_or_else(missing)?;
        let (own, keys) = self.partitions.divide(scan);
        let is_excluded = |comparison| match self.partitions.key(comparison) {
            Some(key) => self.partitions.excludes(*file, key, comparison),
            None => group.as_ref().is_some_and(|group| group.excludes(&self.own, comparison, &self.limits)),
        };
        let stream = match group.as_ref().filter(|_| !scan.predicate.iter().any(is_excluded)) {
            Some(group) => {
                let expansion = self.expansion.clone();
                let count = move |decoded| expansion.count(split, decoded);
                // Maximum decoded size of a page or row, in bytes.
                let max = self.limits.header_bytes;
                stream::open(group, &self.own, &own, max, self.memory.clone(), Box::new(count))
            }
            None => stream::empty(&self.own, &own),
        };
        self.partitions.add_columns(stream?, *file, &keys)
    }
}

/// Returns the files of a source, sorted by name.
fn members(source: &dyn Source, context: &dyn Context) -> Result<Vec<DataFile>> {
    let members = match source.entry() {
        Entry::Folder => partitions::members(source, context)?,
        _ => entry_files(source, is_member)?.into_iter().map(DataFile::plain).collect(),
    };
    file_name::require(members, "no Parquet files here", format!("*{}", SUFFIXES[0]))
}

/// Returns whether a file with this name in a folder contains data. Hidden files and summaries
/// (`_metadata`) do not count as data.
pub(crate) fn is_member(name: &str) -> bool {
    file_name::is_member(name, SUFFIXES)
}
