//! The reader. It first infers the schema from every line, unless the options set the schema or
//! limit the number of lines. If the input is read only once, the reader infers the schema from the
//! first lines of each range, and the streams check every line. Each range of lines becomes a split.

mod blocks;
mod checks;
mod column_decoder;
mod columns;
mod cursor;
mod decode;
mod fault;
mod infer;
mod line_range;
mod number_text;
mod numbers;
mod objects;
mod schema_file;
mod stream;
mod surrogates;
mod value_type;
mod values_seen;

use crate::options::ReadOptions;
use crate::{LOOSE_SUFFIX, SUFFIXES};
use checks::{Basis, Checks};
use line_range::LineRange;
use std::sync::Arc;
use tensorferry_row_text::ColumnLosses;
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::file_name::{self, entry_files};
use tensorferry_sdk::records::{BatchStream, RecordReader, RecordSet, ScanRequest, Split};
use tensorferry_sdk::{Context, Error, Limits, LossSink, Purpose, Result, Source};
use values_seen::ValuesSeen;

/// Reason for a loss: objects repeat a key.
const REPEATED_KEY: &str = "some objects repeat this key: only the last value is read";
/// Reason for a loss: objects lack a key that other objects have.
const ABSENT_KEYS: &str = "some nested objects lack keys that others have: missing keys become nulls";

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
        let (schema, basis) = match (&self.0.schema, self.0.infer) {
            (Some(path), _) => (schema_file::read(path, context)?, Basis::Given),
            (None, max) => {
                let is_once = max.is_none() && context.purpose().has(Purpose::ONCE);
                match is_once.then(|| infer::guess(&ranges, context)).flatten() {
                    Some(schema) => (schema, Basis::SampledLines),
                    None => {
                        let inferred = infer::infer(&mut ranges, max, context)?;
                        inferred.losses.into_iter().try_for_each(|loss| losses.loss(loss))?;
                        (inferred.schema, if max.is_none() { Basis::AllLines } else { Basis::Given })
                    }
                }
            }
        };
        let splits = ranges.iter().map(LineRange::split).collect();
        let given = self.0.schema.is_some().then(|| ValuesSeen::new(&schema));
        let (losses, limits) = (ColumnLosses::default(), context.limits().clone());
        Ok(Box::new(JsonlSet { schema, given, basis, losses, ranges, splits, limits }))
    }
}

struct JsonlSet {
    schema: SchemaRef,
    /// Record of the columns for which values were read. It exists only if the user set the schema.
    /// In this case, keys that are not in the schema are skipped, which is not a loss.
    given: Option<ValuesSeen>,
    basis: Basis,
    losses: ColumnLosses,
    ranges: Vec<LineRange>,
    splits: Vec<Split>,
    limits: Limits,
}

impl RecordSet for JsonlSet {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// Skips lines before the first requested row, and decodes only the requested keys.
    fn scan(&self, split: usize, scan: &ScanRequest) -> Result<BatchStream> {
        let range = self.ranges.get(split).ok_or_else(|| Error::plugin(format!("no split {split}")))?;
        let checks = Checks {
            // With an inferred schema, a key that is not in the schema would be lost, so it is an
            // error. If only some columns are requested, other keys are ignored, unless the lines
            // have not been checked.
            is_strict: match self.basis {
                Basis::SampledLines => true,
                _ => self.given.is_none() && scan.columns.is_none(),
            },
            basis: self.basis,
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

/// Returns the files of a source, sorted by name.
fn file_names(source: &dyn Source) -> Result<Vec<String>> {
    let mut names = entry_files(source, is_member)?;
    if names.is_empty() {
        // The user selected this format, so also accept `.json` files.
        names = entry_files(source, |name| is_called(name, &[LOOSE_SUFFIX]))?;
    }
    file_name::require(names, "no JSON lines files here", format!("*{}", SUFFIXES[0]))
}

/// Returns whether a file with this name in a folder contains data.
pub(crate) fn is_member(name: &str) -> bool {
    is_called(name, &SUFFIXES)
}

fn is_called(name: &str, suffixes: &[&str]) -> bool {
    file_name::is_member(tensorferry_row_text::uncompressed_name(name), suffixes)
}
