//! `ferry diff` of records.

use crate::args::Diff;
use crate::losses;
use crate::terminal::{self, counted};
use serde_json::{Value, json};
use tensorferry::engine::context::session::Session;
use tensorferry::engine::convert::sides::options_of;
use tensorferry::engine::convert::steps::{on_records, parse};
use tensorferry::engine::read::context::ReadContext;
use tensorferry::engine::read::record_files::FoundInput;
use tensorferry::engine::records::diff::{ColumnDifference, ColumnDifferenceKind, RecordDiff, diff};
use tensorferry::engine::records::rows::{self, Rows};
use tensorferry::engine::records::steps::{self, Origin};
use tensorferry_sdk::{Purpose, Result};

/// Whether they are the same.
pub(super) fn run(command: &Diff, [a, b]: [FoundInput<'_>; 2], session: &Session) -> Result<bool> {
    let (a, b) = (open(&a, session)?, open(&b, session)?);
    let of_a = on_records(parse(&command.step)?)?;
    let found = std::thread::scope(|scope| {
        let mut a = steps::make(scope, Origin::Rows(&a), &of_a, session)?;
        let mut b = steps::make(scope, Origin::Rows(&b), &[], session)?;
        diff(&mut *a, &mut *b)
    })?;
    let losses = [a.losses()?, b.losses()?].concat();
    losses::report(&losses, &session.take_notes(), false);
    a.close()?;
    b.close()?;
    terminal::answer(command.json, || document(&found), || text(&found))?;
    Ok(found.is_equal())
}

fn open<'r>(found: &FoundInput<'r>, session: &Session) -> Result<Rows<'r>> {
    let options = options_of(&found.format.description, &found.options);
    rows::open(&found.source, found.format, &options, &ReadContext::new(session, Purpose::COMPARE))
}

fn document(found: &RecordDiff) -> Value {
    let [a, b] = found.records;
    json!({
        "equal": found.is_equal(),
        "records": { "a": a, "b": b },
        "columns": found.columns,
        "differences": found.differences.iter().map(record).collect::<Vec<_>>(),
    })
}

fn record(difference: &ColumnDifference) -> Value {
    let mut record = json!({ "kind": difference.kind.word(), "name": difference.name });
    match &difference.kind {
        ColumnDifferenceKind::Missing | ColumnDifferenceKind::Unexpected => {}
        ColumnDifferenceKind::Type(a, b) => {
            record["a"] = json!(a);
            record["b"] = json!(b);
        }
        ColumnDifferenceKind::Content { records, first, values: [a, b] } => {
            record["records"] = json!(records);
            record["first"] = json!(first);
            record["a"] = json!(a);
            record["b"] = json!(b);
        }
    }
    record
}

fn text(found: &RecordDiff) -> String {
    let [a, b] = found.records;
    if found.is_equal() {
        return format!("equal: {}, {}\n", counted(a, "record"), counted(found.columns as u64, "column"));
    }
    let mut lines = Vec::new();
    if a != b {
        lines.push(format!("  records: {a} in A, {b} in B\n"));
    }
    lines.extend(found.differences.iter().map(|difference| format!("  {difference}\n")));
    format!("different: {}\n{}", counted(lines.len() as u64, "difference"), lines.concat())
}
