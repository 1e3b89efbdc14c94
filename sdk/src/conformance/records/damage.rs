//! Checks a record reader with damaged inputs. The reader must promptly return rows or an error,
//! and must not panic.

use super::compare::difference;
use super::{ReadRows, count, open, pull};
use crate::conformance::Sample;
use crate::conformance::buffer_monitor::BufferMonitor;
use crate::conformance::damage::{MAX_BYTES, for_each_damaged};
use crate::conformance::rules::Rules;
use crate::records::{Batches, RecordSet};
use crate::{Limits, MemoryContext, Purpose, Result};
use arrow_array::RecordBatch;
use std::sync::Arc;

/// Maximum number of rows in a batch.
const ROWS: usize = 64;
/// Maximum number of rows to read from a damaged input, which may declare any number of rows.
const MAX_ROWS: u64 = 1 << 16;

/// Truncates and changes each file of a sample, and returns the number of damaged inputs.
pub(super) fn check(rules: &Rules<'_>, sample: &Sample) -> usize {
    let Ok(whole) = read(rules, sample, &|| sample.title()) else { return 0 };
    for_each_damaged(sample, |damaged, is_cut, input| {
        if let Ok(found) = read(rules, damaged, input)
            && is_cut
            && sample.files.len() == 1
        {
            check_cut(rules, &whole, &found, input);
        }
    })
}

/// Checks that a truncated file returns only its first rows. If the format does not mark the end of
/// a row, the last row may be truncated.
fn check_cut(rules: &Rules<'_>, whole: &ReadRows, found: &ReadRows, input: &dyn Fn() -> String) {
    let rule = "a truncated file returns only rows from before the cut";
    rules.require(found.count() <= whole.count(), rule, || {
        format!("{}: {} rows of {}", input(), found.count(), whole.count())
    });
    if found.schema.fields() == whole.schema.fields() {
        let sure = found.count().saturating_sub(1);
        let difference = difference(&first(&whole.batches, sure), &first(&found.batches, sure));
        rules.require(difference.is_none(), rule, || format!("{}: {difference:?}", input()));
    }
}

fn first(batches: &[RecordBatch], rows: u64) -> Vec<RecordBatch> {
    let mut left = usize::try_from(rows).unwrap_or(usize::MAX);
    let mut taken = Vec::new();
    for batch in batches {
        let rows = batch.num_rows().min(left);
        left -= rows;
        taken.push(batch.slice(0, rows));
    }
    taken
}

/// Probes an input, opens it, reads its rows and renders them as lines.
fn read(rules: &Rules<'_>, sample: &Sample, input: &dyn Fn() -> String) -> Result<ReadRows> {
    rules.set_input(sample);
    let limits = Limits { header_bytes: 16 << 20, expanded_bytes: MAX_BYTES, ..Limits::default() };
    let context = MemoryContext::new(limits.clone());
    let monitor = Arc::new(BufferMonitor::new(sample.source()));
    let score = rules.catch_panic(input, || rules.format.probe(&*monitor, &context));
    rules.holds(score, "probing fails only with I/O errors", &input());
    let for_purpose = |purpose| {
        let mut context = MemoryContext::new(limits.clone());
        context.purpose = purpose;
        context
    };
    let read = |context: &MemoryContext| {
        rules.catch_panic(input, || {
            let set = open(rules, monitor.clone(), context)?;
            rows(rules, &*set, input)
        })
    };
    let found = read(&context);
    check_guess(rules, &found, read(&for_purpose(Purpose::ONCE)), input);
    rules.catch_panic(input, || {
        if let Ok(set) = open(rules, monitor.clone(), &for_purpose(Purpose::LINES)) {
            for split in 0..set.splits().len() {
                let _ = set.json(split, ROWS as u64, &mut Vec::new());
            }
        }
    });
    rules.require(!monitor.has_oversized_buffer(), "no buffer is longer than its file", input);
    if let Err(error) = &found {
        rules.check_fault(error, &input());
    }
    found
}

/// Checks that reading an input in a single pass returns an error, or the same rows as after a full
/// scan.
fn check_guess(
    rules: &Rules<'_>,
    certain: &Result<ReadRows>,
    guessed: Result<ReadRows>,
    input: &dyn Fn() -> String,
) {
    // The comparison is not possible if a long stream was cut off.
    let Some(guessed) = guessed.ok().filter(|rows| rows.count() <= MAX_ROWS) else { return };
    let found = match certain {
        Err(error) => Some(format!("{} rows instead of the error: {error}", guessed.count())),
        Ok(certain) if certain.schema != guessed.schema => Some(format!("the schema {:?}", guessed.schema)),
        Ok(certain) => difference(&certain.batches, &guessed.batches),
    };
    rules.require(found.is_none(), "a single pass returns the same rows or an error", || {
        format!("{}: {}", input(), found.unwrap_or_default())
    });
}

fn rows(rules: &Rules<'_>, set: &dyn RecordSet, input: &dyn Fn() -> String) -> Result<ReadRows> {
    let request = Batches { columns: None, rows: ROWS, bytes: 1 << 16 };
    let (schema, mut batches) = (set.schema(), Vec::new());
    for split in 0..set.splits().len() {
        let stream = set.stream(split, &request)?;
        // A very long stream is cut off, which is not an error.
        if set.splits()[split].records.is_some_and(|records| records > MAX_ROWS) {
            continue;
        }
        let found = pull(rules, stream, &schema, input)?;
        let longest = found.iter().map(RecordBatch::num_rows).max().unwrap_or(0);
        rules.require(longest <= ROWS, "a batch has at most the requested number of rows", || {
            format!("{}: {longest}", input())
        });
        batches.extend(found);
        if count(&batches) > MAX_ROWS {
            break;
        }
    }
    Ok(ReadRows { schema, batches })
}
