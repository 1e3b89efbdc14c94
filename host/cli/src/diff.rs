//! `ferry diff`: tells whether two inputs hold the same tensors, or the same records.

mod records;

use super::args::Diff;
use super::losses;
use super::terminal;
use serde_json::{Value, json};
use std::path::Path;
use tensorferry::engine::context::session::Session;
use tensorferry::engine::convert::inspect::{Inspected, Look, inspect, temporary};
use tensorferry::engine::convert::sides::options_of;
use tensorferry::engine::convert::steps;
use tensorferry::engine::formats::registry::Registry;
use tensorferry::engine::formats::registry::holds_records;
use tensorferry::engine::read::part::Part;
use tensorferry::engine::read::record_files::{self, FoundInput, InputChoice};
use tensorferry::engine::steps::apply;
use tensorferry::engine::tensors::diff::{
    Difference, DifferenceKind, Tolerance, diff, diff_attributes, diff_metadata,
};
use tensorferry::engine::tensors::logical::Logical;
use tensorferry::engine::tensors::stored::Stored;
use tensorferry_sdk::{Capabilities, Error, Purpose, Result};

/// Differences that the text tells one by one: about a screen.
const MOST_LINES: usize = 40;

/// Whether they are the same.
pub(super) fn run(command: &Diff, registry: &Registry, session: &Session) -> Result<bool> {
    let choice = InputChoice { from: None, options: &command.options, part: &command.part };
    let found = |path: &Path| record_files::find(path, choice, registry, session);
    let found = [found(&command.a)?, found(&command.b)?];
    // Beside tensors, and where a part or a tolerance is asked for, records are the tensors that they become.
    let has_part = command.part != Part::Whole && !found.iter().any(|found| found.is_split);
    let as_tensors = has_part || command.atol.is_some() || command.rtol.is_some();
    if !as_tensors && found.iter().all(|found| holds_records(&found.format.description)) {
        return records::run(command, found, session);
    }
    let steps = steps::on_tensors(steps::parse(&command.step)?)?;
    let [a, b] =
        [&command.a, &command.b].map(|path| open(path, &command.part, &command.options, registry, session));
    let (mut a, mut b) = (a?, b?);
    // A format without a dtype has it packed, which is no difference.
    b.catalog = b.catalog.unpacked().0;
    let (catalog, effects) = apply(a.catalog.unpacked().0, &steps)?;
    a.catalog = catalog;
    losses::report(&effects.losses, &effects.notes, false);
    check_options(&command.options, &[&a, &b])?;
    let (of_a, of_b) = (
        Logical::new(Stored::new(&a.input, &a.catalog, session, temporary())),
        Logical::new(Stored::new(&b.input, &b.catalog, session, temporary())),
    );
    let tolerance = (command.atol.is_some() || command.rtol.is_some())
        .then(|| Tolerance { atol: command.atol.unwrap_or(0.0), rtol: command.rtol.unwrap_or(0.0) });
    let mut differences = terminal::with_progress(session, false, |_| diff(&of_a, &of_b, tolerance))?;
    // Between other formats values are changed or lost on the way, and the conversion said so.
    let keep =
        |capability| [&a, &b].iter().all(|seen| seen.input.format.description.capabilities.has(capability));
    if keep(Capabilities::ATTRIBUTES) {
        differences.extend(diff_attributes(&a.catalog, &b.catalog));
    }
    if keep(Capabilities::METADATA | Capabilities::VALUES) {
        differences.extend(diff_metadata(&a.catalog, &b.catalog));
    }
    let tensors = a.catalog.tensors().len();
    drop((of_a, of_b));
    a.input.close()?;
    b.input.close()?;
    print_differences(&differences, tensors, command.json)?;
    Ok(differences.is_empty())
}

/// A part is taken where there is one: what was converted from a part has only that.
fn open(
    path: &Path,
    part: &Part,
    options: &[(String, String)],
    registry: &Registry,
    session: &Session,
) -> Result<Inspected> {
    let choice = InputChoice { from: None, options, part };
    let FoundInput { format, is_split, .. } = record_files::find(path, choice, registry, session)?;
    let options = if is_split { options.to_vec() } else { options_of(&format.description, options) };
    let look = |part| Look { from: None, options: &options, part, purpose: Purpose::COMPARE };
    if is_split {
        return inspect(path, look(part), registry, session);
    }
    let whole = inspect(path, look(&Part::Whole), registry, session)?;
    let has_tree = whole.catalog.tree().root().is_some();
    let starts = |name: &str, path: &str| name.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    match part {
        Part::Path(prefix)
            if !has_tree && !whole.catalog.tensors().iter().any(|t| starts(&t.name, prefix)) =>
        {
            Ok(whole)
        }
        Part::Whole => Ok(whole),
        part => inspect(path, look(part), registry, session),
    }
}

/// An option that neither input has is a mistake.
fn check_options(options: &[(String, String)], inputs: &[&Inspected]) -> Result<()> {
    for option in options {
        let one = std::slice::from_ref(option);
        if inputs.iter().all(|seen| options_of(&seen.input.format.description, one).is_empty()) {
            return Err(Error::usage(format!("neither input has an option -i {}", option.0)));
        }
    }
    Ok(())
}

/// Prints the verdict, then each difference.
pub(super) fn print_differences(differences: &[Difference], tensors: usize, as_json: bool) -> Result<()> {
    let is_equal = differences.is_empty();
    let document = || {
        let list: Vec<Value> = differences.iter().map(record).collect();
        json!({ "equal": is_equal, "tensors": tensors, "differences": list })
    };
    let text = || {
        if is_equal {
            return format!("equal: {}\n", terminal::counted(tensors as u64, "tensor"));
        }
        let told = differences.iter().take(MOST_LINES);
        let mut lines: String = told.map(|difference| format!("  {difference}\n")).collect();
        if differences.len() > MOST_LINES {
            lines += &format!("  ... and {} more (--json has all)\n", differences.len() - MOST_LINES);
        }
        format!("different: {}\n{lines}", terminal::counted(differences.len() as u64, "difference"))
    };
    terminal::answer(as_json, document, text)
}

fn record(difference: &Difference) -> Value {
    let mut record = json!({ "kind": difference.kind.word(), "name": difference.name });
    match &difference.kind {
        DifferenceKind::Missing | DifferenceKind::Unexpected | DifferenceKind::Content(None) => {}
        DifferenceKind::Dtype(a, b) => {
            record["a"] = json!(a);
            record["b"] = json!(b);
        }
        DifferenceKind::Shape(a, b) => {
            record["a"] = json!(a);
            record["b"] = json!(b);
        }
        DifferenceKind::Attribute(key, a, b) => {
            record["attribute"] = json!(key);
            (record["a"], record["b"]) = (json!(a), json!(b));
        }
        DifferenceKind::Metadata(a, b) => (record["a"], record["b"]) = (json!(a), json!(b)),
        DifferenceKind::Content(Some((count, distance))) => {
            record["elements"] = json!(count);
            record["largest"] = json!(distance);
        }
    }
    record
}
