//! `ferry diff` of records.

use super::args::Diff;
use super::terminal::{self, counted};
use serde_json::{Value, json};
use tensorferry_host::errand::Errand;
use tensorferry_host::plugins::LoadedFormat;
use tensorferry_host::records::diff::{Compared, Difference, DifferenceKind, diff};
use tensorferry_host::records::rows::{self, Rows};
use tensorferry_host::records::steps::{self, Origin};
use tensorferry_host::run::Run;
use tensorferry_host::sides::options_of;
use tensorferry_host::source::FileSource;
use tensorferry_host::steps::parse;
use tensorferry_sdk::{Purpose, Result};

/// Whether they are the same.
pub(super) fn run(command: &Diff, formats: [&LoadedFormat; 2], run: &Run) -> Result<bool> {
    let open = |path, format| -> Result<Rows<'_>> {
        let format: &LoadedFormat = format;
        let options = options_of(&format.description, &command.options);
        rows::open(&FileSource::open(path)?, format, &options, &Errand::new(run, Purpose::COMPARE))
    };
    let (a, b) = (open(&command.a, formats[0])?, open(&command.b, formats[1])?);
    let of_a = parse(&command.step)?;
    steps::check(&of_a)?;
    let found = std::thread::scope(|scope| {
        let mut a = steps::make(scope, Origin::Rows(&a), &of_a, run)?;
        let mut b = steps::make(scope, Origin::Rows(&b), &[], run)?;
        diff(&mut *a, &mut *b)
    })?;
    let losses = [a.losses()?, b.losses()?].concat();
    terminal::report(&losses, &run.take_notes(), false);
    a.close()?;
    b.close()?;
    if command.json {
        terminal::print_json(&document(&found))?;
    } else {
        terminal::print(&text(&found))?;
    }
    Ok(found.is_equal())
}

fn document(found: &Compared) -> Value {
    let [a, b] = found.records;
    json!({
        "equal": found.is_equal(),
        "records": { "a": a, "b": b },
        "columns": found.columns,
        "differences": found.differences.iter().map(record).collect::<Vec<_>>(),
    })
}

fn record(difference: &Difference) -> Value {
    let mut record = json!({ "kind": difference.kind.word(), "name": difference.name });
    match &difference.kind {
        DifferenceKind::Missing | DifferenceKind::Unexpected => {}
        DifferenceKind::Type(a, b) => {
            record["a"] = json!(a);
            record["b"] = json!(b);
        }
        DifferenceKind::Content { records, first, values: [a, b] } => {
            record["records"] = json!(records);
            record["first"] = json!(first);
            record["a"] = json!(a);
            record["b"] = json!(b);
        }
    }
    record
}

fn text(found: &Compared) -> String {
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
