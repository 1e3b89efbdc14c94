//! The tests for record formats.

mod cell;
mod compare;
mod damage;
mod reading;
mod scanning;
mod test_tables;
mod writing;

use super::rules::Rules;
use super::{ConformancePart, ConformanceReport, Sample, description};
use crate::memory::records::{self, OpenedRecords};
use crate::records::{BatchStream, from_stream};
use crate::{Capabilities, Context, Result, Side, Source};
use arrow_array::{Array, RecordBatch};
use arrow_schema::SchemaRef;
use std::sync::Arc;

/// Maximum number of batches in a stream of a small input. A longer stream counts as endless.
const MAX_BATCHES: usize = 1 << 16;

pub(super) fn check(
    rules: &Rules<'_>,
    samples: &[Sample],
    report: &mut ConformanceReport,
    part: ConformancePart<'_>,
) {
    let can = |capability| rules.description.capabilities.has(capability);
    part(&mut || {
        description::check_side(rules, Capabilities::READ_RECORDS, Side::Reader, |options| {
            rules.format.record_reader(options).map(drop)
        });
        description::check_side(rules, Capabilities::WRITE_RECORDS, Side::Writer, |options| {
            rules.format.record_writer(options).map(drop)
        });
    });
    if can(Capabilities::READ_RECORDS) {
        for sample in samples {
            if part(&mut || report.rows += reading::check(rules, sample)) {
                part(&mut || report.damaged += damage::check(rules, sample));
            }
        }
    }
    if can(Capabilities::WRITE_RECORDS) {
        writing::check(rules, samples, report, part);
    }
}

/// Opens a source with the default options.
fn open(rules: &Rules<'_>, source: Arc<dyn Source>, context: &dyn Context) -> Result<OpenedRecords> {
    records::open(rules.format, &[], source, context)
}

struct ReadRows {
    /// The schema that the set declares.
    schema: SchemaRef,
    /// The batches of all splits.
    batches: Vec<RecordBatch>,
}

impl ReadRows {
    fn count(&self) -> u64 {
        count(&self.batches)
    }
}

fn count(batches: &[RecordBatch]) -> u64 {
    batches.iter().map(|batch| batch.num_rows() as u64).sum()
}

/// Reads a stream to its end, and checks the schema of each batch.
fn pull(
    rules: &Rules<'_>,
    stream: BatchStream,
    schema: &SchemaRef,
    input: &dyn Fn() -> String,
) -> Result<Vec<RecordBatch>> {
    let rule = "every batch has the schema of its set";
    rules.require(stream.schema().fields() == schema.fields(), rule, || {
        format!("{}: expected {:?}, the stream has {:?}", input(), schema.fields(), stream.schema().fields())
    });
    let (mut stream, mut all) = (stream, Vec::new());
    while let Some(batch) = stream.next() {
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => {
                let more = stream.next().is_some_and(|more| more.is_ok());
                rules.require(!more, "a stream ends when it fails", input);
                return Err(from_stream(error));
            }
        };
        rules.require(batch.schema_ref().fields() == schema.fields(), rule, || {
            format!("{}: expected {:?}, found {:?}", input(), schema.fields(), batch.schema_ref().fields())
        });
        // Strings and offsets that were received through C structures have not been validated yet.
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            let sound = column.to_data().validate_full();
            rules.require(sound.is_ok(), "the values of a batch are valid for their types", || {
                format!(
                    "{}: column {:?}: {}",
                    input(),
                    field.name(),
                    sound.err().map(|e| e.to_string()).unwrap_or_default()
                )
            });
        }
        all.push(batch);
        rules.require(all.len() < MAX_BATCHES, "a stream of a small input ends", input);
    }
    Ok(all)
}
