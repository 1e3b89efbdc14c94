//! Checks a record reader with valid inputs.

use super::compare::difference;
use super::{ReadRows, count, open, pull, scanning};
use crate::conformance::Sample;
use crate::conformance::buffer_monitor::BufferMonitor;
use crate::conformance::reading::recognizes;
use crate::conformance::rules::Rules;
use crate::records::{Batches, RecordSet};
use crate::{
    ByteSink, Capabilities, Entry, Error, ErrorKind, Limits, MemoryContext, Purpose, Result, Source,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{Schema, SchemaRef};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum time to wait for a set's threads to end.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Checks a sample, and returns its number of rows.
pub(super) fn check(rules: &Rules<'_>, sample: &Sample) -> u64 {
    rules.set_input(sample);
    let title = sample.title();
    let score = rules
        .catch_panic(|| title.clone(), || rules.format.probe(&sample.source(), &MemoryContext::default()));
    let score = rules.holds(score, "probing fails only with I/O errors", &title);
    rules.require(recognizes(rules, &sample.source(), score), "a format recognizes its own files", || {
        title.clone()
    });

    let rows = rules.holds(read(rules, sample, &Limits::default()), "a sample can be read", &title);
    for name in &sample.holds {
        let there = rows.schema.field_with_name(name).is_ok();
        rules.require(there, "no column is dropped silently", || format!("{title}: {name:?}"));
    }
    if let Some(expected) = sample.rows {
        rules.require(rows.count() == expected, "the splits together contain all rows", || {
            format!("{title}: expected {expected} rows, found {}", rows.count())
        });
    }
    let context = MemoryContext::default();
    let set =
        rules.holds(open(rules, Arc::new(sample.source()), &context), "a sample can be read twice", &title);
    check_set(rules, &*set, &rows, &title);
    check_splits(rules, &*set, sample, &title);
    check_limits(rules, sample, &rows);
    check_lines(rules, sample, &rows);
    check_index(rules, sample, &rows);
    rows.count()
}

/// Checks the rules that apply to every set, including sets that a test wrote.
pub(super) fn check_set(rules: &Rules<'_>, set: &dyn RecordSet, rows: &ReadRows, title: &str) {
    let same = set.schema() == rows.schema;
    rules.require(same, "the same input gives the same schema", || title.to_owned());
    check_again(rules, set, rows, title);
    check_columns(rules, set, rows, title);
    check_batches(rules, set, rows, title);
    scanning::check(rules, set, rows, title);
    let none = set.splits().len();
    let stream =
        rules.catch_panic(|| format!("{title}, split {none}"), || set.stream(none, &Batches::default()));
    rules.require(stream.is_err(), "reading a split that does not exist is an error", || title.to_owned());
}

/// Reads all rows of a sample and checks the lengths of the reader's buffers.
fn read(rules: &Rules<'_>, sample: &Sample, limits: &Limits) -> Result<ReadRows> {
    let title = || sample.under(limits);
    let monitor = Arc::new(BufferMonitor::new(sample.source()));
    let source: Arc<dyn Source> = monitor.clone();
    let rows = read_source(rules, &source, &MemoryContext::new(limits.clone()), &title);
    drop(source);
    rules.require(is_released(&monitor), "a set releases its source", title);
    rules.require(!monitor.has_oversized_buffer(), "no buffer is longer than its file", title);
    rows
}

/// Returns whether the reader has released the source. Waits briefly, because threads of the reader
/// may still use the source.
fn is_released(source: &Arc<BufferMonitor>) -> bool {
    let start = Instant::now();
    while Arc::strong_count(source) > 1 {
        if start.elapsed() > MAX_WAIT {
            return false;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    true
}

/// Reads all rows of a source, and checks the number of rows that each split declares.
pub(super) fn read_source(
    rules: &Rules<'_>,
    source: &Arc<dyn Source>,
    context: &MemoryContext,
    title: &dyn Fn() -> String,
) -> Result<ReadRows> {
    rules.catch_panic(title, || {
        let set = open(rules, source.clone(), context)?;
        let schema = set.schema();
        let mut batches = Vec::new();
        for (number, split) in set.splits().iter().enumerate() {
            let of_split = pull(rules, set.stream(number, &Batches::default())?, &schema, title)?;
            let declared = split.records.is_none_or(|records| records == count(&of_split));
            rules.require(declared, "a split has as many rows as declared", || {
                let says = split.records.unwrap_or_default();
                format!("{}, split {number} declares {says} rows, found {}", title(), count(&of_split))
            });
            batches.extend(of_split);
        }
        Ok(ReadRows { schema, batches })
    })
}

/// Reads the requested rows and checks their schema.
fn rows(
    rules: &Rules<'_>,
    set: &dyn RecordSet,
    request: &Batches,
    schema: &SchemaRef,
    title: &str,
) -> Vec<RecordBatch> {
    let input = || format!("{title}, {request:?}");
    let mut all = Vec::new();
    for split in 0..set.splits().len() {
        let batches = rules.catch_panic(input, || pull(rules, set.stream(split, request)?, schema, &input));
        all.extend(rules.holds(batches, "the rows of a sample can be read with any request", &input()));
    }
    all
}

/// Reads two streams of each split at the same time, alternating between them.
fn check_again(rules: &Rules<'_>, set: &dyn RecordSet, expected: &ReadRows, title: &str) {
    let rule = "reading a split again gives the same rows";
    let (mut one, mut other) = (Vec::new(), Vec::new());
    let request = Batches { rows: 2, ..Batches::default() };
    for split in 0..set.splits().len() {
        let stream = || rules.holds(set.stream(split, &request), rule, title);
        let (mut first, mut second) = (stream(), stream());
        loop {
            let (a, b) = (first.next(), second.next());
            rules.require(a.is_some() == b.is_some(), rule, || title.to_owned());
            let (Some(a), Some(b)) = (a, b) else { break };
            one.push(rules.holds(a.map_err(crate::records::from_stream), rule, title));
            other.push(rules.holds(b.map_err(crate::records::from_stream), rule, title));
        }
    }
    for rows in [one, other] {
        let difference = difference(&expected.batches, &rows);
        rules.require(difference.is_none(), rule, || format!("{title}: {difference:?}"));
    }
}

/// Requests no columns, then each column separately, then all columns except the first.
fn check_columns(rules: &Rules<'_>, set: &dyn RecordSet, expected: &ReadRows, title: &str) {
    let all = expected.schema.fields().len();
    let alone = (0..all).map(|column| vec![column]);
    for columns in [vec![], (1..all).collect()].into_iter().chain(alone) {
        let rule = "a stream has the requested columns";
        let fields: Vec<_> = columns.iter().map(|&column| expected.schema.fields()[column].clone()).collect();
        let schema = Arc::new(Schema::new(fields));
        let request = Batches { columns: Some(columns.clone()), ..Batches::default() };
        let found: Result<Vec<_>> = (0..set.splits().len())
            .map(|split| Ok(set.stream(split, &request)?.schema().fields().clone()))
            .collect();
        let found = rules.holds(found, rule, title);
        rules.require(found.iter().all(|fields| *fields == schema.fields), rule, || {
            format!("{title}: requested {columns:?}, found {:?}", found.first())
        });
        let found = rows(rules, set, &request, &schema, title);
        let projected: Vec<_> = expected.batches.iter().filter_map(|b| b.project(&columns).ok()).collect();
        let difference = difference(&projected, &found);
        rules.require(difference.is_none(), "requested columns have the same values", || {
            format!("{title}: {columns:?}: {difference:?}")
        });
    }
}

/// Requests batches with a maximum number of rows, and batches with a maximum number of bytes.
fn check_batches(rules: &Rules<'_>, set: &dyn RecordSet, expected: &ReadRows, title: &str) {
    let whole = expected.batches.iter().map(size).sum::<u64>();
    let default = Batches::default();
    for request in [
        Batches { rows: 1, ..default.clone() },
        Batches { rows: 3, ..default.clone() },
        Batches { bytes: 1, ..default.clone() },
        Batches { bytes: (whole / 8).max(1), ..default.clone() },
        Batches { rows: 3, bytes: (whole / 8).max(1), ..default.clone() },
    ] {
        let found = rows(rules, set, &request, &expected.schema, title);
        let longest = found.iter().map(RecordBatch::num_rows).max().unwrap_or(0);
        rules.require(longest <= request.rows, "a batch has at most the requested number of rows", || {
            format!("{title}, {request:?}: a batch of {longest} rows")
        });
        // The batch size is approximate, so a few additional rows are allowed.
        let over = found.iter().find(|batch| {
            batch.num_rows() > 64 && size(batch) > request.bytes.saturating_mul(2).saturating_add(SLACK)
        });
        rules.require(over.is_none(), "a batch has about the requested size", || {
            let over = over.map(|batch| (batch.num_rows(), size(batch)));
            format!("{title}, {request:?}: a batch of {over:?} (rows, bytes), of {whole} bytes in total")
        });
        let difference = difference(&expected.batches, &found);
        rules.require(difference.is_none(), "the rows are the same in batches of any length", || {
            format!("{title}, {request:?}: {difference:?}")
        });
    }
}

/// Number of bytes by which a batch may always exceed the requested size.
const SLACK: u64 = 4096;

/// Returns the number of bytes in the rows of a batch.
fn size(batch: &RecordBatch) -> u64 {
    batch.columns().iter().map(|c| c.to_data().get_slice_memory_size().unwrap_or(0) as u64).sum()
}

/// Checks that splits are in existing files and in order.
fn check_splits(rules: &Rules<'_>, set: &dyn RecordSet, sample: &Sample, title: &str) {
    let mut seen: Vec<&str> = Vec::new();
    let mut last = 0;
    for split in set.splits() {
        let len = sample.files.get(&split.file).map(Vec::len);
        rules.require(len.is_some(), "a split is in one of the input's files", || {
            format!("{title}: {split:?}")
        });
        let fits = split.bytes <= len.unwrap_or(0) as u64;
        rules.require(fits, "a split is no longer than its file", || format!("{title}: {split:?}"));
        let is_next = match seen.last() {
            Some(&file) if file == split.file => split.offset >= last,
            _ => !seen.contains(&&*split.file),
        };
        rules.require(is_next, "splits are in the order of the input", || {
            format!("{title}: {:?}", set.splits())
        });
        seen.push(&split.file);
        last = split.offset;
    }
}

/// Checks a reader with very low limits. The reader must either fail with a limit error or return
/// the same rows.
fn check_limits(rules: &Rules<'_>, sample: &Sample, whole: &ReadRows) {
    let tight = [
        Limits { header_bytes: 0, ..Limits::default() },
        Limits { header_bytes: 16, ..Limits::default() },
        Limits { entries: 0, ..Limits::default() },
        Limits { nesting: 0, ..Limits::default() },
        Limits { name_bytes: 0, ..Limits::default() },
        Limits { expanded_bytes: 0, ..Limits::default() },
        Limits { memory_bytes: 0, ..Limits::default() },
    ];
    let over = |error: &Error| matches!(error.kind(), ErrorKind::Limit | ErrorKind::Malformed);
    for limits in &tight {
        let input = || sample.under(limits);
        match read(rules, sample, limits) {
            Ok(rows) => {
                let difference = difference(&whole.batches, &rows.batches);
                rules.require(difference.is_none(), "a limit never drops content silently", || {
                    format!("{}: {difference:?}", input())
                });
            }
            Err(error) => {
                let rule = rules.rule_of(&error, "an input that exceeds a limit is a limit error");
                rules.require(over(&error), rule, || format!("{}: {error}", input()));
            }
        }
    }
}

/// Checks JSON lines, if the format has its own JSON form.
fn check_lines(rules: &Rules<'_>, sample: &Sample, expected: &ReadRows) {
    let title = format!("{}, as lines", sample.title());
    let mut context = MemoryContext::default();
    context.purpose = Purpose::LINES;
    let set = rules.catch_panic(|| title.clone(), || open(rules, Arc::new(sample.source()), &context));
    let set = rules.holds(set, "a sample can be shown", &title);
    let mut total = 0;
    let mut has_lines = false;
    for max in [u64::MAX, 1] {
        for split in 0..set.splits().len() {
            let mut lines = Lines::default();
            let shown = rules.catch_panic(|| title.clone(), || set.json(split, max, &mut lines));
            let Some(shown) = rules.holds(shown, "a sample can be shown", &title) else { continue };
            has_lines = true;
            let right = shown == lines.count && shown <= max;
            rules.require(right, "lines are limited as requested and counted correctly", || {
                format!("{title}: at most {max}, returned {shown}, wrote {}", lines.count)
            });
            rules.require(!lines.is_broken, "a line is text without a newline", || title.clone());
            total += if max == u64::MAX { shown } else { 0 };
        }
    }
    rules.require(!has_lines || total == expected.count(), "every row has a line", || {
        format!("{title}: {total} lines, {} rows", expected.count())
    });
}

#[derive(Default)]
struct Lines {
    count: u64,
    is_broken: bool,
}

impl ByteSink for Lines {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.count += 1;
        self.is_broken |= bytes.contains(&b'\n') || std::str::from_utf8(bytes).is_err();
        Ok(())
    }
}

/// Checks the index, if the format declares one.
fn check_index(rules: &Rules<'_>, sample: &Sample, expected: &ReadRows) {
    let title = format!("{}, its index", sample.title());
    let context = MemoryContext::default();
    let make = || {
        let mut bytes = Vec::new();
        let options = crate::Options::defaults(&rules.description.options, crate::Side::Reader);
        let reader = rules.format.record_reader(&options)?;
        reader.index(&sample.source(), &mut bytes, &context).map(|indexed| (indexed, bytes))
    };
    let made = rules.catch_panic(|| title.clone(), make);
    let is_declared = rules.description.capabilities.has(Capabilities::INDEX);
    match made {
        Ok((indexed, bytes)) => {
            rules.require(is_declared, "an index is declared", || title.clone());
            if matches!(sample.entry, Entry::File(_)) && sample.files.len() == 1 {
                rules.require(indexed.records == expected.count(), "an index covers all records", || {
                    format!("{title}: {} records, {} rows", indexed.records, expected.count())
                });
            }
            let again = rules.catch_panic(|| title.clone(), make).map(|(_, bytes)| bytes);
            rules.require(again.as_ref() == Ok(&bytes), "an index is the same each time", || title.clone());
        }
        Err(error) => {
            let fair = match error.kind() {
                ErrorKind::Unsupported => true,
                ErrorKind::Usage => is_declared,
                _ => false,
            };
            rules.require(fair, "an input has an index, or indexing it is unsupported", || {
                format!("{title}: {error}")
            });
        }
    }
}
