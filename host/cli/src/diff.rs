//! `ferry diff`: compares the tensors or records of two inputs.

use super::args::Diff;
use super::losses;
use super::page::{DifferencesPage, PageFile, differences};
use super::terminal::{self, counted, printable};
use tensorferry::compare::{
    CompareRequest, ComparisonResult, Difference, DifferenceKind, Differences, MaxDiff, RecordDiff,
    Tolerance, tensors_json,
};
use tensorferry::request::Part;
use tensorferry::{Registry, Session};
use tensorferry_sdk::Result;

/// Maximum number of differences in the text output, which is about one screen.
const MAX_LINES: usize = 40;
/// Minimum width of the column that contains the details of the differences.
const MIN_DETAIL: usize = 20;

/// Runs the command, and returns whether the inputs are equal, or within `--max-diff`.
pub(super) fn run(command: &Diff, registry: &Registry, session: &Session) -> Result<bool> {
    let request = CompareRequest {
        a: &command.a,
        b: &command.b,
        part: &command.part,
        options: &command.options,
        steps: &command.step,
        tolerance: (command.atol.is_some() || command.rtol.is_some())
            .then(|| Tolerance { atol: command.atol.unwrap_or(0.0), rtol: command.rtol.unwrap_or(0.0) }),
        max_diff: command.max_diff,
        losses: &command.losses.policy(),
    };
    let page = command.html.as_ref().map(|path| PageFile::at(path, command.force)).transpose()?;
    let found = terminal::with_progress(session, false, |_| registry.compare(&request))?;
    losses::report(&found.losses, &found.notes, false);
    if let Some(page) = page {
        return write(command, page, &found);
    }
    match &found.differences {
        Differences::Tensors(differences, tensors) => {
            let (as_json, limit) = (command.json, command.max_diff);
            let document = || document(differences, *tensors, limit);
            terminal::answer_verdict(as_json, document, || of_tensors(differences, *tensors, limit))?;
        }
        Differences::Records(records) => {
            terminal::answer_verdict(command.json, || records.json(), || text(records))?;
        }
    }
    Ok(found.is_within(command.max_diff))
}

/// Writes the HTML page of the comparison, and prints only the verdict.
fn write(command: &Diff, page: PageFile, found: &ComparisonResult) -> Result<bool> {
    let limit = command.max_diff;
    let verdict = match &found.differences {
        Differences::Tensors(differences, tensors) => verdict(differences, *tensors, limit),
        Differences::Records(records) => text(records).lines().next().unwrap_or_default().to_owned() + "\n",
    };
    let mut facts = Vec::new();
    let mut say = |key: &'static str, value: Option<String>| facts.extend(value.map(|value| (key, value)));
    say("part", (command.part != Part::Whole).then(|| format!("{:?}", command.part)));
    say("steps on A", (!command.step.is_empty()).then(|| command.step.join(", ")));
    say("absolute tolerance", command.atol.map(|x| x.to_string()));
    say("relative tolerance", command.rtol.map(|x| x.to_string()));
    let [a, b] = [&command.a, &command.b].map(|path| path.display().to_string());
    let title = format!("{a} and {b}: ferry diff");
    let shown = DifferencesPage { sides: [a, b], found: found.json(), verdict: &verdict, facts };
    page.write(&title, &differences(shown))?;
    terminal::print_verdict(&verdict)?;
    Ok(found.is_within(limit))
}

/// Prints the verdict of `ferry check`, followed by each difference.
pub(super) fn print_differences(differences: &[Difference], tensors: usize, as_json: bool) -> Result<()> {
    let text = || {
        let table = table(differences, |difference| difference.kind.word());
        verdict(differences, tensors, None) + &table
    };
    terminal::answer_verdict(as_json, || tensors_json(differences, tensors), text)
}

/// Returns the verdict, followed by the differences, largest first.
fn of_tensors(differences: &[Difference], tensors: usize, limit: Option<MaxDiff>) -> String {
    let kind = |difference: &Difference| match difference.kind {
        DifferenceKind::Missing => "only in A",
        DifferenceKind::Unexpected => "only in B",
        _ => difference.kind.word(),
    };
    verdict(differences, tensors, limit) + &table(differences, kind)
}

fn verdict(differences: &[Difference], tensors: usize, limit: Option<MaxDiff>) -> String {
    let count = counted(differences.len() as u64, "difference");
    match limit {
        _ if differences.is_empty() => format!("equal: {}\n", counted(tensors as u64, "tensor")),
        None => format!("different: {count}\n"),
        Some(limit) => {
            let over = differences.iter().filter(|difference| difference.is_over(limit)).count();
            let kind = if limit.is_relative { " relative" } else { "" };
            match over {
                0 => format!("within {}{kind}: {count}\n", limit.limit),
                over => format!("over {}{kind}: {over} of {count}\n", limit.limit),
            }
        }
    }
}

/// Formats differences as a table with two columns: the name, and the kind with its details. On a
/// terminal, the second column is wrapped.
fn table(differences: &[Difference], kind: impl Fn(&Difference) -> &'static str) -> String {
    let shown = &differences[..differences.len().min(MAX_LINES)];
    let names: Vec<String> = shown.iter().map(|difference| printable(&difference.name)).collect();
    let width = terminal::width(&names);
    let room = terminal::columns_or(usize::MAX).saturating_sub(width + 4).max(MIN_DETAIL);
    let mut text = String::new();
    for (difference, name) in shown.iter().zip(&names) {
        let detail = format!("{}{}", kind(difference), detail(difference));
        let is_long = detail.chars().count() > room;
        let lines = if is_long { terminal::wrapped(&detail, room) } else { vec![detail] };
        let names = std::iter::once(name.as_str()).chain(std::iter::repeat(""));
        for (name, line) in names.zip(lines) {
            text += &format!("  {name:width$}  {line}\n");
        }
    }
    if differences.len() > MAX_LINES {
        text += &format!("  ... and {} more (--json lists all)\n", differences.len() - MAX_LINES);
    }
    text
}

/// Returns the description of a difference without its kind and its name.
fn detail(difference: &Difference) -> String {
    let text = difference.to_string();
    let start = format!("{}: {:?}", difference.kind.word(), difference.name);
    text.strip_prefix(&start).unwrap_or(&text).to_owned()
}

fn document(differences: &[Difference], tensors: usize, limit: Option<MaxDiff>) -> serde_json::Value {
    let mut document = tensors_json(differences, tensors);
    if let Some(limit) = limit {
        let over = differences.iter().filter(|difference| difference.is_over(limit)).count();
        document["max_diff"] =
            serde_json::json!({ "limit": limit.limit, "relative": limit.is_relative, "over": over });
    }
    document
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
