//! The reader. It first locates all messages to determine the schema and the number of rows. Then
//! it divides the batches into runs. Each run becomes a split.

mod claims;
mod column;
mod contents;
mod decode;
mod decoders;
mod dictionaries;
mod experimental;
mod message;
mod runs;
mod slices;
mod stored;
mod stream;
mod unify;
mod views;

use contents::Contents;
use decoders::DecoderCache;
use dictionaries::DictionaryCache;
use std::num::NonZero;
use std::ops::Range;
use std::sync::Arc;
use tensorferry_sdk::arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use tensorferry_sdk::file_name::{self, entry_files};
use tensorferry_sdk::records::{
    BatchStream, ExpansionLimit, RecordReader, RecordSet, ScanRequest, Split, difference, narrowed,
};
use tensorferry_sdk::{Context, Error, Limits, Loss, LossKind, LossSink, Result, Source, listed};

pub(crate) use message::is_schema;

/// Minimum total size of the batches in a split, in bytes.
const SPLIT: u64 = 4 << 20;

pub(crate) struct Reader;

impl RecordReader for Reader {
    fn open(
        &self,
        source: Arc<dyn Source>,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>> {
        let limits = context.limits();
        let mut files = Vec::new();
        let expected = crate::SUFFIXES.map(|suffix| format!("*{suffix}")).join(", ");
        let names = entry_files(source.as_ref(), is_member)?;
        for name in file_name::require(names, "no Arrow IPC files here", expected)? {
            let contents = contents::read(&source, &name, context).map_err(|error| error.file(&name))?;
            if !contents.custom.is_empty() {
                let keys =
                    listed(contents.custom.iter().map(|key| format!("{key:?}")), contents.custom.len());
                let why =
                    format!("the metadata of the file or of its batches cannot be stored in records: {keys}");
                losses.loss(Loss::new(LossKind::Metadata, &name, why))?;
            }
            files.push(OpenFile { contents: Arc::new(contents), dictionaries: Arc::default() });
        }
        let schema = schema_of_all(&files)?;
        let (mut runs, mut splits) = (Vec::new(), Vec::new());
        for (number, file) in files.iter().enumerate() {
            for run in runs_of(&file.contents) {
                let batches = &file.contents.batches[run.clone()];
                let start = batches.first().map_or(0, |batch| batch.place.offset);
                splits.push(Split {
                    file: file.contents.name().to_owned(),
                    offset: start,
                    bytes: batches.last().map_or(0, |batch| batch.place.end() - start),
                    records: Some(batches.iter().map(|batch| batch.rows).sum()),
                });
                runs.push((number, run));
            }
        }
        let bytes = files.iter().map(|file| file.contents.file.len()).sum();
        let expansion = Arc::new(ExpansionLimit::new(bytes, limits, splits.len()));
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let decoders = Arc::new(DecoderCache::new(limits, splits.len().min(threads)));
        Ok(Box::new(ArrowSet { schema, files, runs, splits, limits: limits.clone(), expansion, decoders }))
    }
}

/// A file whose messages have been located.
#[derive(Clone)]
struct OpenFile {
    contents: Arc<Contents>,
    dictionaries: Arc<DictionaryCache>,
}

struct ArrowSet {
    schema: SchemaRef,
    files: Vec<OpenFile>,
    /// File number and range of batches of each split.
    runs: Vec<(usize, Range<usize>)>,
    splits: Vec<Split>,
    limits: Limits,
    expansion: Arc<ExpansionLimit>,
    decoders: Arc<DecoderCache>,
}

impl RecordSet for ArrowSet {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// Skips batches before the first requested row, and decodes only the requested columns.
    fn scan(&self, split: usize, scan: &ScanRequest) -> Result<BatchStream> {
        let run = self.runs.get(split).ok_or_else(|| Error::plugin(format!("no split {split}")))?;
        let (file, batches) = (self.files[run.0].clone(), (split, run.1.clone()));
        let expansion = self.expansion.clone();
        let count = Box::new(move |decoded| expansion.count(split, decoded));
        let (limits, decoders) = (&self.limits, self.decoders.clone());
        let rows = stream::open(file, batches, &self.schema, scan, limits, decoders, count)?;
        narrowed(rows, &self.schema, &ScanRequest { first_row: 0, limit: None, ..scan.clone() })
    }
}

/// Divides the batches of a file into runs, one per split. For a file without batches, returns one
/// empty run.
fn runs_of(contents: &Contents) -> Vec<Range<usize>> {
    let (mut runs, mut start) = (Vec::new(), 0);
    for (index, batch) in contents.batches.iter().enumerate() {
        let first = contents.batches[start].place.offset.min(batch.place.offset);
        if batch.place.end() - first >= SPLIT {
            runs.push(start..index + 1);
            start = index + 1;
        }
    }
    if start < contents.batches.len() || runs.is_empty() {
        runs.push(start..contents.batches.len());
    }
    runs
}

/// Returns the schema of the first file. A column is nullable if it is nullable in any file. If
/// types differ only in the maximum length of values, the larger type is used.
fn schema_of_all(files: &[OpenFile]) -> Result<SchemaRef> {
    let Some((first, others)) = files.split_first() else { return Ok(Arc::new(Schema::empty())) };
    let mut fields: Vec<FieldRef> = first.contents.schema.fields().to_vec();
    for file in others {
        let own = file.contents.schema.fields();
        let fits = |a: &DataType, b: &DataType| unify::types(a, b).is_some();
        let differs = difference((first.contents.name(), &fields), (file.contents.name(), own), &fits);
        differs.map_or(Ok(()), Err)?;
        let unified = fields.iter().zip(own).map(|(field, own)| unify::fields(field, own));
        fields = unified.collect::<Option<_>>().ok_or_else(|| Error::plugin("columns do not match"))?;
    }
    Ok(Arc::new(Schema::new_with_metadata(fields, first.contents.schema.metadata().clone())))
}

/// Returns whether a file with this name in a folder contains data.
pub(crate) fn is_member(name: &str) -> bool {
    file_name::is_member(name, crate::SUFFIXES)
}
