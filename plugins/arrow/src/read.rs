//! The reader: where all messages lie first, so that the schema is one and the rows are counted; then each run of
//! batches is a split.

mod claims;
mod contents;
mod decode;
mod dictionaries;
mod experimental;
mod message;
mod stream;
mod unify;

use contents::Contents;
use dictionaries::DictionaryCache;
use std::ops::Range;
use std::sync::Arc;
use tensorferry_sdk::arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use tensorferry_sdk::file_name::{self, entry_files};
use tensorferry_sdk::records::{
    Batched, Expansion, RecordReader, RecordSet, Scan, Split, difference, narrowed,
};
use tensorferry_sdk::{Context, Error, Limits, Loss, LossKind, LossSink, Result, Source, listed};

pub(crate) use message::is_schema;

/// Bytes of the batches of one split, at least.
const SPLIT: u64 = 4 << 20;

/// Reads files and folders of files.
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
        for name in file_name::require(names, "no files of Arrow IPC here", expected)? {
            let contents = contents::read(&source, &name, context).map_err(|error| error.file(&name))?;
            if !contents.custom.is_empty() {
                let keys =
                    listed(contents.custom.iter().map(|key| format!("{key:?}")), contents.custom.len());
                let why = format!("metadata of the file or of its batches, which rows do not have: {keys}");
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
        let expansion = Arc::new(Expansion::new(bytes, limits, splits.len()));
        Ok(Box::new(Set { schema, files, runs, splits, limits: limits.clone(), expansion }))
    }
}

/// A file whose messages are known.
#[derive(Clone)]
struct OpenFile {
    contents: Arc<Contents>,
    dictionaries: Arc<DictionaryCache>,
}

struct Set {
    schema: SchemaRef,
    files: Vec<OpenFile>,
    /// Of each split its file, and which of its batches.
    runs: Vec<(usize, Range<usize>)>,
    splits: Vec<Split>,
    limits: Limits,
    expansion: Arc<Expansion>,
}

impl RecordSet for Set {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// Batches before the first row that is wanted are not read, and columns that are not wanted are not decoded.
    fn scan(&self, split: usize, scan: &Scan) -> Result<Batched> {
        let run = self.runs.get(split).ok_or_else(|| Error::plugin(format!("no split {split}")))?;
        let (file, batches) = (self.files[run.0].clone(), run.1.clone());
        let expansion = self.expansion.clone();
        let count = Box::new(move |decoded| expansion.count(split, decoded));
        let rows = stream::open(file, batches, &self.schema, scan, &self.limits, count)?;
        narrowed(rows, &self.schema, &Scan { first_row: 0, limit: None, ..scan.clone() })
    }
}

/// Batches that make a split: a file without any is a split without rows.
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

/// The schema of the first file, nullable where any file is, with the larger of two types that differ only in how long their
/// values may be.
fn schema_of_all(files: &[OpenFile]) -> Result<SchemaRef> {
    let Some((first, others)) = files.split_first() else { return Ok(Arc::new(Schema::empty())) };
    let mut fields: Vec<FieldRef> = first.contents.schema.fields().to_vec();
    for file in others {
        let own = file.contents.schema.fields();
        let fits = |a: &DataType, b: &DataType| unify::types(a, b).is_some();
        let differs = difference((first.contents.name(), &fields), (file.contents.name(), own), &fits);
        differs.map_or(Ok(()), Err)?;
        let unified = fields.iter().zip(own).map(|(field, own)| unify::fields(field, own));
        fields = unified.collect::<Option<_>>().ok_or_else(|| Error::plugin("columns that do not fit"))?;
    }
    Ok(Arc::new(Schema::new_with_metadata(fields, first.contents.schema.metadata().clone())))
}

/// Whether a folder's file of this name is one of its data.
pub(crate) fn is_member(name: &str) -> bool {
    file_name::is_member(name, crate::SUFFIXES)
}
