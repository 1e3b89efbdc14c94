//! Checks a record writer. The same rows must always produce the same bytes, and every value must
//! be kept or reported as a loss.

use super::compare::TableRoundTrip;
use super::test_tables::{self, TestTable};
use super::{count, open, reading};
use crate::conformance::rules::Rules;
use crate::conformance::{ConformancePart, ConformanceReport, Sample};
use crate::memory::records::{self, RecordOutput};
use crate::records::RecordPlan;
use crate::{
    Capabilities, Entry, ErrorKind, Loss, MemoryContext, Options, Result, Side, Source, Target, check_name,
};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

pub(super) fn check(
    rules: &Rules<'_>,
    samples: &[Sample],
    report: &mut ConformanceReport,
    part: ConformancePart<'_>,
) {
    let before = report.written;
    for table in test_tables::tables() {
        part(&mut || check_table(rules, &table, report));
    }
    part(&mut || {
        let has_written = report.written > before;
        rules.require(has_written, "a writer writes something", || format!("{:?}", report.refused));
    });
    if !rules.description.capabilities.has(Capabilities::READ_RECORDS) {
        return;
    }
    for sample in samples {
        let title = sample.title();
        let context = MemoryContext::default();
        let source: Arc<dyn Source> = Arc::new(sample.source());
        part(&mut || {
            let rows = reading::read_source(rules, &source, &context, &|| title.clone());
            let rows = rules.holds(rows, "a sample can be read", &title);
            let table = TestTable { title: title.clone(), schema: rows.schema, pieces: vec![rows.batches] };
            check_table(rules, &table, report);
        });
    }
}

fn check_table(rules: &Rules<'_>, table: &TestTable, report: &mut ConformanceReport) {
    let suffix = rules.description.suffixes.first().map_or("", String::as_str);
    for target in [Target::File(format!("sample{suffix}")), Target::Folder] {
        let input = format!("{}, to {target:?}", table.title);
        let write = || {
            let context = MemoryContext::default();
            let write = || records::write(rules.format, &[], &table.schema, &table.pieces, &target, &context);
            rules.catch_panic(|| input.clone(), write)
        };
        match (write(), write()) {
            (Ok(output), Ok(again)) => {
                rules.require(output == again, "the same rows give the same files and losses", || {
                    input.clone()
                });
                check_pieces(rules, table, &target, &input);
                if rules.description.capabilities.has(Capabilities::READ_RECORDS) {
                    read_back(rules, table, &output, &target, &input);
                }
                report.written += 1;
            }
            (Err(error), Err(_)) => {
                let fair = matches!(error.kind(), ErrorKind::Usage | ErrorKind::Unsupported);
                let rule = rules.rule_of(&error, "rows are refused with a usage or unsupported error");
                rules.require(fair, rule, || format!("{input}: {error}"));
                report.refused.push(format!("{input}: {error}"));
            }
            _ => rules.broken("the same rows give the same files and losses", &input),
        }
    }
}

/// The bytes, the note and the losses of a written piece.
type WrittenPiece = (Vec<u8>, Vec<u8>, Vec<Loss>);

/// Checks that a piece does not depend on other pieces or on the division of its rows into batches.
fn check_pieces(rules: &Rules<'_>, table: &TestTable, target: &Target, input: &str) {
    let plan = || {
        let options = Options::defaults(&rules.description.options, Side::Writer);
        let writer = rules.format.record_writer(&options)?;
        writer.plan(&table.schema, None, target, &mut Vec::new(), &MemoryContext::default())
    };
    let plan =
        || rules.holds(rules.catch_panic(|| input.to_owned(), plan), "rows can be planned twice", input);
    let (forwards, backwards, split) = (plan(), plan(), plan());
    check_names(rules, &*forwards, input);
    let encode = |plan: &dyn RecordPlan, batches: &[RecordBatch]| {
        let piece = rules.catch_panic(|| input.to_owned(), || encode(plan, batches));
        rules.holds(piece, "rows can be encoded twice", input)
    };
    let one: Vec<WrittenPiece> = table.pieces.iter().map(|piece| encode(&*forwards, piece)).collect();
    let mut other: Vec<WrittenPiece> =
        table.pieces.iter().rev().map(|piece| encode(&*backwards, piece)).collect();
    other.reverse();
    rules.require(one == other, "a piece does not depend on others", || input.to_owned());
    for (piece, batches) in one.iter().zip(&table.pieces) {
        let rows =
            |batch: &RecordBatch| (0..batch.num_rows().min(16)).map(|row| batch.slice(row, 1)).collect();
        if batches.iter().all(|batch| batch.num_rows() <= 16) {
            let single: Vec<RecordBatch> = batches.iter().flat_map::<Vec<_>, _>(rows).collect();
            let same = single.is_empty() || encode(&*split, &single).0 == piece.0;
            rules.require(same, "the same rows give the same bytes however they are batched", || {
                input.to_owned()
            });
        }
    }
}

fn encode(plan: &dyn RecordPlan, batches: &[RecordBatch]) -> Result<WrittenPiece> {
    let (mut bytes, mut losses) = (Vec::new(), Vec::new());
    let note = plan.encode(batches, &mut bytes, &mut losses)?;
    Ok((bytes, note, losses))
}

fn check_names(rules: &Rules<'_>, plan: &dyn RecordPlan, input: &str) {
    // If the plan starts new files as needed, it names the files when their number is known.
    let rolled = (0..3).map(|file| plan.name(file, 3)).collect::<Result<Vec<String>>>();
    let files = match plan.roll() {
        Some(_) => rules.holds(rolled, "each file of a plan that rolls has a name", input),
        None => plan.files().to_vec(),
    };
    let is_one = plan.roll().is_none() || plan.files().is_empty();
    rules.require(is_one, "a plan that rolls does not name files in advance", || {
        format!("{input}: {files:?}")
    });
    let mut seen = HashSet::new();
    let sane = files.iter().chain(plan.sealed()).all(|file| check_name(file).is_ok() && seen.insert(file));
    rules.require(
        sane && !files.is_empty(),
        "the files of a plan have unique names inside the folder",
        || format!("{input}: {files:?}"),
    );
    let group = plan.group();
    rules.require(group.rows > 0 && group.bytes > 0, "a piece has room for a row", || {
        format!("{input}: {group:?}")
    });
}

fn read_back(rules: &Rules<'_>, table: &TestTable, output: &RecordOutput, target: &Target, input: &str) {
    let title = || format!("{input}, read back");
    let entry = match (target, output.files.keys().next()) {
        (_, Some(only)) if output.files.len() == 1 => Entry::File(only.clone()),
        _ => Entry::Folder,
    };
    let all: BTreeMap<_, _> = output.files.clone().into_iter().chain(output.sealed.clone()).collect();
    let written = Sample::set(entry, all);
    rules.set_input(&written);
    let source: Arc<dyn Source> = Arc::new(written.source());
    let context = MemoryContext::default();
    let rows = reading::read_source(rules, &source, &context, &title);
    let rows = rules.holds(rows, "a format reads what it writes", input);
    let set = rules.holds(open(rules, source, &context), "a format reads what it writes", input);
    let losses = rules.holds(set.losses(), "a format reads what it writes", input);
    let losses: Vec<_> = output.losses.iter().cloned().chain(losses).collect();
    let before: Vec<RecordBatch> = in_order(&table.pieces, output.files.len()).cloned().collect();
    let (schema, found): (&SchemaRef, &SchemaRef) = (&table.schema, &rows.schema);
    TableRoundTrip { input, schema, before: &before, found, after: &rows.batches, losses: &losses }
        .check(rules);
    if count(&before) > 0 {
        reading::check_set(rules, &*set, &rows, &title());
    }
}

/// Iterates over the batches of pieces in the order of the files. The pieces were distributed over
/// the files in round-robin order.
fn in_order(pieces: &[Vec<RecordBatch>], files: usize) -> impl Iterator<Item = &RecordBatch> {
    (0..files).flat_map(move |file| pieces.iter().skip(file).step_by(files).flatten())
}
