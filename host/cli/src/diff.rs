//! `ferry diff`: tells whether two inputs hold the same tensors, or the same records.

use super::args::Diff;
use super::losses;
use super::terminal::{self, counted};
use tensorferry::engine::context::session::Session;
use tensorferry::engine::convert::compare::{Compared, Differences, compare, json};
use tensorferry::engine::formats::registry::Registry;
use tensorferry::engine::records::diff::RecordDiff;
use tensorferry::engine::tensors::diff::{Difference, Tolerance};
use tensorferry_sdk::Result;

/// Differences that the text tells one by one: about a screen.
const MOST_LINES: usize = 40;

/// Whether they are the same.
pub(super) fn run(command: &Diff, registry: &Registry, session: &Session) -> Result<bool> {
    let request = Compared {
        a: &command.a,
        b: &command.b,
        part: &command.part,
        options: &command.options,
        steps: &command.step,
        tolerance: (command.atol.is_some() || command.rtol.is_some())
            .then(|| Tolerance { atol: command.atol.unwrap_or(0.0), rtol: command.rtol.unwrap_or(0.0) }),
    };
    let found = terminal::with_progress(session, false, |_| compare(&request, registry, session))?;
    losses::report(&found.losses, &found.notes, false);
    match &found.differences {
        Differences::Tensors(differences, tensors) => {
            print_differences(differences, *tensors, command.json)?;
        }
        Differences::Records(records) => {
            terminal::answer(command.json, || records.json(), || text(records))?;
        }
    }
    Ok(found.is_equal())
}

/// Prints the verdict, then each difference.
pub(super) fn print_differences(differences: &[Difference], tensors: usize, as_json: bool) -> Result<()> {
    let text = || {
        if differences.is_empty() {
            return format!("equal: {}\n", counted(tensors as u64, "tensor"));
        }
        let told = differences.iter().take(MOST_LINES);
        let mut lines: String = told.map(|difference| format!("  {difference}\n")).collect();
        if differences.len() > MOST_LINES {
            lines += &format!("  ... and {} more (--json has all)\n", differences.len() - MOST_LINES);
        }
        format!("different: {}\n{lines}", counted(differences.len() as u64, "difference"))
    };
    terminal::answer(as_json, || json(differences, tensors), text)
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
