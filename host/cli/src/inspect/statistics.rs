//! `ferry inspect --stats`: formats tensor statistics as JSON, or as a table that fits the
//! terminal. Also lists the anomalies that the statistics show.

use crate::terminal::{self, counted, printable};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use tensorferry::describe::ModelDescription;
use tensorferry::statistics::{
    BINS, Finding, FindingKind, Histogram, ModelStatistics, Number, Numbers, Statistics, TensorStatistics,
};
use tensorferry_sdk::listed;

/// Minimum width of the name column.
const MIN_NAME: usize = 16;
/// Maximum number of tensors named in a finding.
const MAX_NAMED: usize = 3;
/// Maximum number of layers named in a finding.
const MAX_LAYERS: usize = 12;

/// Returns the statistics as JSON, keyed by tensor name. If a tensor is part of a weight, its entry
/// contains only the name of the weight.
pub(super) fn by_name(statistics: &ModelStatistics) -> HashMap<&str, Value> {
    let mut all = HashMap::new();
    for tensor in &statistics.tensors {
        all.extend(tensor.parts.iter().map(|part| (part.as_str(), json!({ "part_of": tensor.name }))));
    }
    // A weight may have the same name as one of its parts. The weights are inserted last, so that a
    // weight's entry replaces the entry of its part.
    for tensor in &statistics.tensors {
        all.insert(&tensor.name, tensor.json());
    }
    all
}

/// Returns a model as JSON, including the statistics of weights that consist of several tensors.
pub(super) fn with_weights(model: &ModelDescription, stats: &HashMap<&str, Value>) -> Value {
    let mut document = json!(model);
    let weights = document.get_mut("weights").and_then(Value::as_array_mut);
    for weight in weights.into_iter().flatten() {
        let found = weight["name"].as_str().and_then(|name| stats.get(name));
        if let Some(found) = found.filter(|found| found.get("part_of").is_none()) {
            weight["stats"] = found.clone();
        }
    }
    document
}

/// Lists the anomalies: one line for each finding if `all` is true, otherwise one line for each
/// kind of finding.
pub(super) fn findings(statistics: &ModelStatistics, all: bool) -> Vec<String> {
    let notes = statistics.notes.iter().cloned();
    let mut kinds: BTreeMap<FindingKind, Vec<&Finding>> = BTreeMap::new();
    for finding in &statistics.findings {
        kinds.entry(finding.kind).or_default().push(finding);
    }
    let mut lines: Vec<String> = Vec::new();
    for (kind, found) in kinds {
        let most = if all { usize::MAX } else { MAX_NAMED };
        let tensors: usize = found.iter().map(|finding| finding.tensors.len()).sum();
        let mut line = format!("{}: {}{}", kind.title(), counted(tensors as u64, "tensor"), layers(&found));
        if all {
            lines.push(line);
            lines.extend(found.iter().map(|finding| format!("  {}", named(finding, usize::MAX))));
            continue;
        }
        line += ": ";
        line += &found.iter().take(most).map(|finding| named(finding, most)).collect::<Vec<_>>().join("; ");
        if found.len() > most {
            let _ = write!(line, "; ... and {} more (--all shows them)", found.len() - most);
        }
        lines.push(line);
    }
    if lines.is_empty() && statistics.notes.is_empty() {
        lines.push("no anomalies found".to_owned());
    }
    notes.chain(lines).collect()
}

fn named(finding: &Finding, most: usize) -> String {
    format!("{} ({})", listed(&finding.tensors, most), finding.what)
}

fn layers(findings: &[&Finding]) -> String {
    let mut layers: Vec<u64> = findings.iter().flat_map(|finding| finding.layers()).collect();
    layers.sort_unstable();
    layers.dedup();
    let word = match layers.len() {
        0 => return String::new(),
        1 => "layer",
        _ => "layers",
    };
    let shown: Vec<String> = layers.iter().take(MAX_LAYERS).map(u64::to_string).collect();
    let more = if layers.len() > MAX_LAYERS { " ..." } else { "" };
    format!(", {word} {}{more}", shown.join(", "))
}

/// Returns one line for each tensor. If the tensor has a histogram, the histogram follows on the
/// next line.
pub(super) fn table(tensors: &[TensorStatistics], most: usize) -> String {
    let shown = &tensors[..most.min(tensors.len())];
    let numbers = || shown.iter().filter_map(|tensor| tensor.found.as_ref().ok()?.numbers());
    let has_nan = numbers().any(|numbers| numbers.nan > 0);
    let has_infinities = numbers().any(|numbers| numbers.infinities() > 0);
    let mut titles = vec!["dtype", "shape", "min", "max", "mean", "std", "zeros"];
    titles.extend(has_nan.then_some("NaN"));
    titles.extend(has_infinities.then_some("inf"));
    let mut titles: Vec<String> = titles.into_iter().map(str::to_owned).collect();
    let mut rows: Vec<Row> = shown.iter().map(|tensor| Row::of(tensor, has_nan, has_infinities)).collect();
    let longest = shown.iter().map(|tensor| printable(&tensor.name).chars().count()).max().unwrap_or(0);
    let room_beside = |widths: &[usize]| {
        let taken = 2 + widths.iter().map(|width| width + 2).sum::<usize>();
        terminal::columns().saturating_sub(taken).max(MIN_NAME)
    };
    // The names are the most important column. If they do not fit, the shapes and then the dtypes
    // are omitted, because `inspect` without `--stats` shows shapes and dtypes.
    let mut words = 2;
    while words > 0 && room_beside(&widths_of(&titles, &rows)) < longest {
        words -= 1;
        titles.remove(words);
        rows.iter_mut().for_each(|row| drop(row.cells.remove(words)));
    }
    let widths = widths_of(&titles, &rows);
    let room = room_beside(&widths).min(longest.max(4));
    let mut text = String::from("\n");
    let line = |name: &str, cells: &[String]| {
        let mut line = format!("  {name:room$}");
        for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let _ =
                if column < 2 { write!(line, "  {cell:width$}") } else { write!(line, "  {cell:>width$}") };
        }
        line.trim_end().to_owned() + "\n"
    };
    text += &line("name", &titles);
    for (row, tensor) in rows.iter().zip(shown) {
        text += &line(&shortened(&printable(&tensor.name), room), &row.cells);
        text.extend(row.below.iter().map(|below| format!("    {below}\n")));
    }
    if tensors.len() > shown.len() {
        let _ = writeln!(text, "  ... and {} more (--all shows them)", tensors.len() - shown.len());
    }
    text
}

fn widths_of(titles: &[String], rows: &[Row]) -> Vec<usize> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.cells.get(column));
        cells.chain([&titles[column]]).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    (0..titles.len()).map(width).collect()
}

/// Shortens a name to `room` characters. The function keeps the beginning and the end of the name,
/// which distinguish tensors.
fn shortened(name: &str, room: usize) -> String {
    let count = name.chars().count();
    if count <= room {
        return name.to_owned();
    }
    let end = (room - 1) * 2 / 3;
    let start = room - 1 - end;
    let head: String = name.chars().take(start).collect();
    let tail: String = name.chars().skip(count - end).collect();
    format!("{head}…{tail}")
}

struct Row {
    cells: Vec<String>,
    /// The histogram, which is printed on a separate line below the row.
    below: Option<String>,
}

impl Row {
    fn of(tensor: &TensorStatistics, has_nan: bool, has_infinities: bool) -> Self {
        let shape: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
        let mut cells = vec![printable(&tensor.dtype), format!("[{}]", shape.join(", "))];
        match &tensor.found {
            Ok(Statistics::Numbers(numbers)) => {
                cells.extend([numbers.min, numbers.max].map(|number| number.map_or_else(none, shown)));
                cells.extend([numbers.mean, numbers.deviation].map(|number| number.map_or_else(none, short)));
                cells.push(percent(numbers));
                cells.extend(has_nan.then(|| of_count(numbers.nan)));
                cells.extend(has_infinities.then(|| of_count(numbers.infinities())));
                Self { cells, below: numbers.histogram.as_deref().map(bars) }
            }
            Ok(Statistics::Texts(texts)) => {
                let mean = texts.mean().map_or_else(none, short);
                let below = format!("strings of {} to {} bytes, mean {mean}", texts.shortest, texts.longest);
                Self { cells, below: Some(below) }
            }
            Err(problem) => Self { cells, below: Some(format!("no statistics: {}", printable(problem))) },
        }
    }
}

fn none() -> String {
    "-".to_owned()
}

fn of_count(count: u64) -> String {
    if count == 0 { String::new() } else { count.to_string() }
}

/// Formats the share of zeros as a percentage. A share above 0 is never rounded to 0.
fn percent(numbers: &Numbers) -> String {
    match (numbers.zeros, numbers.count) {
        (0, _) => "0".to_owned(),
        (zeros, count) if zeros == count => "100%".to_owned(),
        (zeros, count) => {
            let share = zeros as f64 * 100.0 / count as f64;
            if share < 0.1 { "<0.1%".to_owned() } else { format!("{:.1}%", share.min(99.9)) }
        }
    }
}

fn shown(number: Number) -> String {
    match number {
        Number::Integer(number) => number.to_string(),
        Number::Float(number) => short(number),
    }
}

/// Formats a number with about four significant digits.
pub(super) fn short(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 || !number.is_finite() {
        return if number == 0.0 { "0".to_owned() } else { number.to_string() };
    }
    if !(1e-4..1e6).contains(&size) {
        return format!("{number:.2e}");
    }
    let digits = match size {
        1e3.. => 1,
        1e2.. => 2,
        1e1.. => 3,
        1.0.. => 4,
        _ => 5,
    };
    let text = format!("{number:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Draws a histogram on one line. Each character stands for one bin or, on a narrow terminal, for
/// two bins.
fn bars(histogram: &Histogram) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let together = if terminal::columns() < BINS + 30 { 2 } else { 1 };
    let counts: Vec<u64> = histogram.counts.chunks(together).map(|bins| bins.iter().sum()).collect();
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let bar = |&count: &u64| match count {
        0 => ' ',
        // Height of the bar in eighths of the highest bar, rounded up.
        count => (1_u128..)
            .zip(BARS)
            .find(|(eighths, _)| u128::from(count) * 8 <= u128::from(most) * eighths)
            .map_or(BARS[7], |(_, bar)| bar),
    };
    let bars: String = counts.iter().map(bar).collect();
    format!("{} |{bars}| {}", short(histogram.edges[0]), short(histogram.edges[BINS]))
}
