//! The reader: the schema first, from every line unless the user says otherwise; then each range of
//! lines is a split.

mod blocks;
mod decode;
mod fault;
mod infer;
mod line_range;
mod number_text;
mod numbers;
mod schema_file;
mod stream;
mod surrogates;
mod value_type;
mod values_seen;

use crate::options::ReadOptions;
use crate::{LOOSE_SUFFIX, SUFFIXES};
use line_range::LineRange;
use std::sync::Arc;
use stream::Checks;
use tensorferry_row_text::SeenLosses;
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::file_name::{self, entry_files};
use tensorferry_sdk::records::{Batched, RecordReader, RecordSet, Scan, Split};
use tensorferry_sdk::{Context, Error, Limits, LossSink, Result, Source};
use values_seen::ValuesSeen;

/// Why objects with a key more than once are a loss.
const REPEATED_KEY: &str = "objects with this key more than once: of its values the last one is read";
/// Why objects that lack a key of others are a loss.
const ABSENT_KEYS: &str = "nested objects do not all have the same keys: absent keys become nulls";

/// Reads files and folders of files.
pub(crate) struct Reader(pub(crate) ReadOptions);

impl RecordReader for Reader {
    fn open(
        &self,
        source: Arc<dyn Source>,
        losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>> {
        let mut ranges = Vec::new();
        for name in file_names(source.as_ref())? {
            context.check_cancelled()?;
            ranges.extend(line_range::of_file(&source, &name, context.limits())?);
        }
        let schema = match &self.0.schema {
            Some(path) => schema_file::read(path, context)?,
            None => {
                let inferred = infer::infer(&mut ranges, self.0.infer, context)?;
                inferred.losses.into_iter().try_for_each(|loss| losses.loss(loss))?;
                inferred.schema
            }
        };
        let splits = ranges.iter().map(LineRange::split).collect();
        let given = self.0.schema.is_some().then(|| ValuesSeen::new(&schema));
        let is_scanned = self.0.schema.is_none() && self.0.infer.is_none();
        let (losses, limits) = (SeenLosses::default(), context.limits().clone());
        Ok(Box::new(Set { schema, given, is_scanned, losses, ranges, splits, limits }))
    }
}

struct Set {
    schema: SchemaRef,
    /// Of one that the user gave: then other keys are left out, and no loss.
    given: Option<ValuesSeen>,
    /// Whether every line was read for the schema.
    is_scanned: bool,
    losses: SeenLosses,
    ranges: Vec<LineRange>,
    splits: Vec<Split>,
    limits: Limits,
}

impl RecordSet for Set {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// Lines before the first row that is wanted are gone past, and keys that are not wanted are not decoded.
    fn scan(&self, split: usize, scan: &Scan) -> Result<Batched> {
        let range = self.ranges.get(split).ok_or_else(|| Error::plugin(format!("no split {split}")))?;
        // A key that the schema lacks would be lost; one that nobody asked for is not.
        let is_strict = self.given.is_none() && scan.columns.is_none();
        let checks = Checks {
            is_strict,
            is_scanned: self.is_scanned,
            seen: self.given.clone(),
            losses: self.losses.clone(),
        };
        stream::open(range, &self.schema, scan, checks, &self.limits)
    }

    fn losses(&self, losses: &mut dyn LossSink) -> Result<()> {
        self.given.iter().try_for_each(|given| given.losses(losses))?;
        self.losses.report(losses)
    }
}

/// The files of a source, in the order of their names.
fn file_names(source: &dyn Source) -> Result<Vec<String>> {
    let mut names = entry_files(source, is_member)?;
    if names.is_empty() {
        // The user said that it is JSON lines.
        names = entry_files(source, |name| is_called(name, &[LOOSE_SUFFIX]))?;
    }
    file_name::require(names, "no files of JSON lines here", format!("*{}", SUFFIXES[0]))
}

/// Whether a folder's file of this name is one of its data.
pub(crate) fn is_member(name: &str) -> bool {
    is_called(name, &SUFFIXES)
}

fn is_called(name: &str, suffixes: &[&str]) -> bool {
    file_name::is_member(tensorferry_row_text::uncompressed_name(name), suffixes)
}
