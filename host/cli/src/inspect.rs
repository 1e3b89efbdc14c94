//! `ferry inspect`: shows what a checkpoint or dataset contains.

mod description;
mod page;
mod records;
mod statistics;

use super::args::{DigestName, Inspect};
use super::terminal::{self, grouped, printable};
use super::{losses, pipes};
use globset::{Glob, GlobMatcher};
use serde::Serialize;
use serde_json::json;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write;
use std::path::Path;
use tensorferry::describe::{Composite, ModelDescription, Pipeline, Tokenizer, describe};
use tensorferry::formats::holds_records;
use tensorferry::inspect::{Inspected, of_state, outline, part, temporary};
use tensorferry::request::Part;
use tensorferry::statistics::{ModelStatistics, StatisticsRequest, model_statistics};
use tensorferry::{LossRecord, Registry, Session, steps};

use tensorferry::inspect::FileSource;
use tensorferry::steps::apply;
use tensorferry::values::{Algorithm, ContentDigest, Logical, Stored, catalog_digest, digests};
use tensorferry_run::human::short;
use tensorferry_sdk::{
    Catalog, Entry, Error, ErrorKind, Loss, Purpose, Result, Source, Tensor, TensorId, Value, hex,
};

/// Maximum number of lines printed without `--all`, including the losses above the text. The number
/// is about one screen.
const MAX_SCREEN_LINES: usize = 48;
/// Minimum and maximum number of tensors listed without `--all`. The actual number depends on the
/// number of lines that remain on the screen.
const LISTED_TENSORS: std::ops::RangeInclusive<usize> = 5..=20;
/// Maximum number of lines in the list of dtypes.
const MAX_DTYPES: usize = 6;
/// Maximum number of characters of a metadata value.
const MAX_VALUE_CHARACTERS: usize = 100;
/// Maximum number of lines in a wrapped list.
const MAX_WRAPPED: usize = 3;

pub(super) use page::{page_content, title};

pub(super) fn run(command: &Inspect, registry: &Registry, session: &Session) -> Result<()> {
    if let Some(output) = &command.html {
        return page::write(command, output, registry, session);
    }
    let look = command.reader.look(Purpose::SHOW);
    let piped = pipes::input(&command.input)?;
    let input = &*piped.path;
    let found = match registry.find(input, look.choice()) {
        Err(error) if error.kind() == ErrorKind::Unsupported && is_folder(input, session) => {
            let models = registry.inspect_below(input, look)?;
            if models.is_empty() {
                return no_model(command, input, session).unwrap_or(Err(error));
            }
            return each(command, models, session);
        }
        found => found?,
    };
    if holds_records(&found.format.description) {
        return records::run(command, &found, session);
    }
    if command.schema {
        return Err(Error::usage("--schema needs a dataset, and this input contains tensors"));
    }
    let seen = InspectedModel::new(command, registry.inspect_found(&found, look)?, session)?;
    losses::report(&seen.inspected.losses, &session.take_notes(), false);
    terminal::answer(command.json, || document(&seen), || text(&seen, command.all))?;
    seen.inspected.input.close()
}

/// An input, and all data that `inspect` shows for the input.
pub(super) struct InspectedModel {
    pub(super) inspected: Inspected,
    model: ModelDescription,
    hashed: Option<TensorDigests>,
    statistics: Option<ModelStatistics>,
}

impl InspectedModel {
    fn new(command: &Inspect, all: Inspected, session: &Session) -> Result<Self> {
        if command.patterns.is_empty() {
            let model = describe(&all.input, &all.catalog, &all.catalog, session);
            let hashed = requested_digests(command, &all, session)?;
            let statistics = requested_statistics(command, &all, session)?;
            return Ok(Self { inspected: all, model, hashed, statistics });
        }
        let whole = all.catalog.clone();
        let weights = describe(&all.input, &whole, &whole, session).weights;
        let inspected = narrowed(command, all, &weights)?;
        let model = describe(&inspected.input, &whole, &inspected.catalog, session);
        let hashed = requested_digests(command, &inspected, session)?;
        let statistics = requested_statistics(command, &inspected, session)?;
        Ok(Self { inspected, model, hashed, statistics })
    }
}

/// Returns whether an input is a local or remote folder.
pub(super) fn is_folder(input: &Path, session: &Session) -> bool {
    FileSource::open(input, session).is_ok_and(|source| *source.entry() == Entry::Folder)
}

/// Describes a folder that contains, for example, a tokenizer but no model.
fn no_model(command: &Inspect, folder: &Path, session: &Session) -> Option<Result<()>> {
    let source = FileSource::open(folder, session).ok()?;
    let found = Tokenizer::of_folder(&source)?;
    let document = || json!({ "format": null, "tensors": [], "model": { "tokenizer": &found } });
    let path = terminal::shown(folder);
    Some(terminal::answer(command.json, document, || description::only_tokenizer(&path, &found)))
}

/// Selects the tensors whose name matches the patterns. A part of a weight also matches if the
/// weight's name matches.
fn narrowed(command: &Inspect, seen: Inspected, weights: &[Composite]) -> Result<Inspected> {
    let quoted = |pattern: &str| format!(",\"where={}\"", pattern.replace('"', "\"\""));
    let mut spec = format!("select{}", command.patterns.iter().map(|it| quoted(it)).collect::<String>());
    let globs =
        command.patterns.iter().filter_map(|pattern| Some(Glob::new(pattern).ok()?.compile_matcher()));
    let globs: Vec<GlobMatcher> = globs.collect();
    for weight in weights.iter().filter(|weight| globs.iter().any(|glob| glob.is_match(&weight.name))) {
        spec.extend(weight.parts.iter().map(|part| quoted(&globset::escape(part))));
    }
    let select = steps::on_tensors(&[spec])?;
    let example =
        seen.catalog.tensors().first().map(|tensor| format!("match a name such as {:?}", tensor.name));
    let Ok((catalog, _)) = apply(seen.catalog, &select) else {
        let wanted = command.patterns.join(" or ");
        let none = Error::usage(format!("no tensor name matches {wanted}"));
        return Err(none.hint(example.unwrap_or_else(|| "this input has no tensors".into())));
    };
    Ok(Inspected { catalog, ..seen })
}

/// Prints each of the models in the input's subfolders.
fn each(command: &Inspect, models: Vec<(String, Inspected)>, session: &Session) -> Result<()> {
    let pipeline = FileSource::open(&command.input, session).ok().and_then(|root| Pipeline::of(&root));
    let models = each_seen(command, models, session)?;
    let losses: Vec<Loss> =
        models.iter().flat_map(|(_, seen)| seen.inspected.losses.iter().cloned()).collect();
    losses::report(&losses, &session.take_notes(), false);
    let documents = || {
        let models = models.iter().map(|(folder, seen)| FolderDocument { folder, model: document(seen) });
        FoldersDocument { pipeline: pipeline.as_ref(), models: models.collect() }
    };
    let texts = || {
        let texts = models.iter().map(|(_, seen)| text(seen, command.all));
        let above = pipeline.as_ref().map_or(String::new(), description::pipeline);
        above + &texts.collect::<Vec<_>>().join("\n")
    };
    terminal::answer(command.json, documents, texts)?;
    models.into_iter().try_for_each(|(_, seen)| seen.inspected.input.close())
}

fn each_seen(
    command: &Inspect,
    models: Vec<(String, Inspected)>,
    session: &Session,
) -> Result<Vec<(String, InspectedModel)>> {
    let seen =
        models.into_iter().map(|(folder, all)| Ok((folder, InspectedModel::new(command, all, session)?)));
    let (models, none): (Vec<_>, Vec<_>) = seen.partition(|seen| {
        // Excludes the models that contain no name that matches the patterns.
        !seen.as_ref().is_err_and(|error: &Error| error.kind() == ErrorKind::Usage)
    });
    let models = models.into_iter().collect::<Result<Vec<_>>>()?;
    if let (true, Some(Err(error))) = (models.is_empty(), none.into_iter().next()) {
        return Err(error);
    }
    Ok(models)
}

/// Computes the digests of all tensors if requested.
fn requested_digests(
    command: &Inspect,
    seen: &Inspected,
    session: &Session,
) -> Result<Option<TensorDigests>> {
    let Some(algorithm) = command.digest.map(DigestName::algorithm) else { return Ok(None) };
    let logical = Logical::new(Stored::new(&seen.input, &seen.catalog, session, temporary()));
    let digests = terminal::with_progress(session, false, |_| digests(&logical, algorithm))?;
    Ok(Some((algorithm, digests)))
}

/// Computes the statistics if requested.
fn requested_statistics(
    command: &Inspect,
    seen: &Inspected,
    session: &Session,
) -> Result<Option<ModelStatistics>> {
    let Some(glob) = &command.stats else { return Ok(None) };
    let request = StatisticsRequest {
        input: &seen.input,
        options: &command.reader.reader.options,
        part: &command.reader.part,
        patterns: glob.as_ref().map_or(&command.patterns, std::slice::from_ref),
        // An HTML page always contains histograms.
        histograms: command.histogram || command.html.is_some(),
    };
    terminal::with_progress(session, false, |_| model_statistics(&request, session)).map(Some)
}

fn dtype_name<'a>(catalog: &'a Catalog, tensor: &Tensor) -> &'a str {
    catalog.dtype_info(tensor.dtype).map_or("?", |info| info.name())
}

type TensorDigests = (Algorithm, Vec<ContentDigest>);

/// The JSON document that `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    format: &'a str,
    origin: &'a str,
    /// Number of parameters. Tied weights count once.
    parameters: u64,
    model: serde_json::Value,
    /// Anomalies. Present only with `--stats`.
    #[serde(skip_serializing_if = "Option::is_none")]
    findings: Option<serde_json::Value>,
    tensors: Vec<TensorRecord<'a>>,
    metadata: BTreeMap<&'a str, serde_json::Value>,
    /// The non-tensor content as a tree, such as a checkpoint's step or a model's signatures.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<outline::State<'a>>,
    losses: Vec<LossRecord<'a>>,
    /// For a pickle: every function or class that loading the file would call.
    #[serde(skip_serializing_if = "Option::is_none")]
    globals: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<Digest>,
}

/// The JSON document that `--json` prints for several models.
#[derive(Serialize)]
struct FoldersDocument<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pipeline: Option<&'a Pipeline>,
    models: Vec<FolderDocument<'a>>,
}

#[derive(Serialize)]
struct FolderDocument<'a> {
    folder: &'a str,
    #[serde(flatten)]
    model: Document<'a>,
}

#[derive(Serialize)]
struct TensorRecord<'a> {
    name: &'a str,
    dtype: &'a str,
    shape: &'a [u64],
    bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tied_to: Option<&'a str>,
    /// Other attributes of the tensor in the input, such as a unit or another name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    attributes: BTreeMap<&'a str, serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<Digest>,
    /// The name of the weight, if the tensor is part of one. The model's `weights` contain the
    /// statistics of that weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<serde_json::Value>,
}

/// A hexadecimal digest, keyed by the name of its algorithm.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Digest {
    Sha256(String),
    Blake3(String),
}

impl Digest {
    fn new(algorithm: Algorithm, digest: &ContentDigest) -> Self {
        match algorithm {
            Algorithm::Sha256 => Self::Sha256(hex(digest)),
            Algorithm::Blake3 => Self::Blake3(hex(digest)),
        }
    }
}

fn document<'a>(seen: &'a InspectedModel) -> Document<'a> {
    let InspectedModel { inspected: seen, model, hashed, statistics } = seen;
    let catalog = &seen.catalog;
    let stats = statistics.as_ref().map(statistics::by_name).unwrap_or_default();
    let tensors = catalog.tensors().iter().zip(catalog.ties()).enumerate();
    let record = |(index, (tensor, tie)): (usize, (&'a Tensor, TensorId))| TensorRecord {
        name: &tensor.name,
        dtype: dtype_name(catalog, tensor),
        shape: &tensor.shape,
        bytes: tensor.bytes,
        tied_to: catalog.tensor(tie).filter(|_| tie.0 as usize != index).map(|first| first.name.as_str()),
        attributes: values(&tensor.attributes),
        digest: hashed.as_ref().map(|(algorithm, digests)| Digest::new(*algorithm, &digests[index])),
        stats: stats.get(tensor.name.as_str()).cloned(),
    };
    Document {
        format: &seen.input.format.description.id,
        origin: catalog.origin(),
        parameters: model.count.parameters,
        model: statistics::with_weights(model, &stats),
        findings: statistics.as_ref().map(ModelStatistics::findings_json),
        tensors: tensors.map(record).collect(),
        metadata: values(catalog.metadata()),
        state: outline::json(catalog),
        losses: seen.losses.iter().map(LossRecord::of).collect(),
        // DeepSpeed files are pickles, but their catalogs do not contain a tree.
        globals: (catalog.tree().root().is_some() || !catalog.globals().is_empty())
            .then(|| catalog.globals()),
        content: match hashed {
            Some((Algorithm::Blake3, digests)) => {
                Some(Digest::new(Algorithm::Blake3, &content_digest(catalog, digests)))
            }
            _ => None,
        },
    }
}

/// Converts values to JSON.
fn values(values: &BTreeMap<String, Value>) -> BTreeMap<&str, serde_json::Value> {
    let as_json = |value: &Value| {
        let json = value.json();
        // serde_json rejects deep nesting that `Value` allows. Such a value becomes a string.
        serde_json::from_str(&json).unwrap_or(serde_json::Value::String(json))
    };
    values.iter().map(|(key, value)| (key.as_str(), as_json(value))).collect()
}

/// Formats a value on one line. A string is unchanged, and any other value becomes JSON.
fn line_of(value: &Value) -> String {
    value.as_text().map_or_else(|| value.json(), str::to_owned)
}

fn content_digest(catalog: &Catalog, digests: &[ContentDigest]) -> ContentDigest {
    catalog_digest(catalog.tensors().iter().map(|tensor| tensor.name.as_str()).zip(digests.iter().copied()))
}

fn text(seen: &InspectedModel, all: bool) -> String {
    let InspectedModel { inspected: seen, model, hashed, statistics } = seen;
    let (catalog, hashed) = (&seen.catalog, hashed.as_ref());
    let mut text = String::new();
    let total: u64 = catalog.tensors().iter().map(|tensor| tensor.bytes).sum();
    let _ = writeln!(
        text,
        "{} ({})",
        terminal::shown(&seen.input.source.entry_path()),
        seen.input.format.description.title
    );
    let count = terminal::counted(catalog.tensors().len() as u64, "tensor");
    let parameters = parameters_text(model.count.parameters);
    let _ = writeln!(text, "{count}, {parameters}, {}", description::sizes(model, total));
    let by_dtype = &model.count.dtypes;
    for (dtype, of_dtype) in by_dtype.iter().take(if all { usize::MAX } else { MAX_DTYPES }) {
        let _ = writeln!(text, "  {dtype}: {}, {}", of_dtype.tensors, terminal::bytes(of_dtype.bytes));
    }
    if by_dtype.len() > MAX_DTYPES && !all {
        let _ = writeln!(text, "  ... and {} more", by_dtype.len() - MAX_DTYPES);
    }
    section(&mut text, "model", description::lines(model).into_iter());
    if let Some(statistics) = statistics {
        section(&mut text, "findings", statistics::findings(statistics, all).into_iter());
    }
    section(&mut text, "state", outline::lines(catalog).iter().map(outline_line));
    section(&mut text, "in formats without nesting", flat(catalog, all).into_iter());
    let mut rest = String::new();
    section(&mut rest, "metadata", metadata(catalog, all).into_iter());
    let globals = catalog.globals();
    if !all && !globals.is_empty() && globals.iter().all(|global| is_standard(global)) {
        rest += "\npickle: standard PyTorch globals only\n";
    } else {
        let lines = if all { globals.to_vec() } else { wrapped(globals, MAX_WRAPPED) };
        section(&mut rest, "pickle globals (ferry never calls them)", lines.into_iter());
    }
    let taken = [&text, &rest].map(|part| part.lines().count()).iter().sum::<usize>() + seen.losses.len() + 2;
    let room = MAX_SCREEN_LINES.saturating_sub(taken).clamp(*LISTED_TENSORS.start(), *LISTED_TENSORS.end());
    let most = if all { usize::MAX } else { room };
    match statistics {
        Some(statistics) => text += &statistics::table(&statistics.tensors, most),
        None => text += &table(catalog, &model.weights, most, hashed),
    }
    text += &rest;
    if let Some((Algorithm::Blake3, digests)) = hashed {
        let _ = writeln!(text, "\ncontent {}", hex(&content_digest(catalog, digests)));
    }
    text
}

/// Formats the exact number of parameters. If there are at least a million, also formats a rounded
/// number.
fn parameters_text(count: u64) -> String {
    let exact = grouped(count, ',');
    match count {
        1 => "1 parameter".to_owned(),
        1_000_000.. => format!("{exact} parameters ({})", short(count)),
        _ => format!("{exact} parameters"),
    }
}

/// Returns one line for each metadata entry. Entries that ferry itself added are included only if
/// `all` is true.
fn metadata(catalog: &Catalog, all: bool) -> Vec<String> {
    let shown = catalog.metadata().iter().filter(|(key, _)| all || !key.starts_with("ferry."));
    shown.map(|(key, value)| format!("{key} = {}", line_of(value))).collect()
}

/// Returns whether a pickled global (a function or class) occurs in ordinary PyTorch tensor files.
/// An attribute of such a global, which a pickle can also name, does not count.
fn is_standard(global: &str) -> bool {
    let name = |start: &str| global.strip_prefix(start).filter(|name| !name.contains('.'));
    global == "collections.OrderedDict"
        || name("torch._utils._rebuild_").is_some()
        || name("torch.storage.").or_else(|| name("torch.")).is_some_and(|name| name.ends_with("Storage"))
}

fn outline_line(line: &outline::Line) -> String {
    let indent = "  ".repeat(line.level);
    let count = match line.tensors {
        0 => String::new(),
        1 => format!("1 tensor, {}", terminal::bytes(line.bytes)),
        count => format!("{count} tensors, {}", terminal::bytes(line.bytes)),
    };
    let facts: Vec<&str> =
        [line.value.as_str(), &count].into_iter().filter(|fact| !fact.is_empty()).collect();
    let separator = if facts.is_empty() { "" } else { ": " };
    format!("{indent}{}{separator}{}", line.key, facts.join(", "))
}

/// Counts the tensors of a nested checkpoint that would remain in a format without nesting, and
/// lists all other content.
fn flat(catalog: &Catalog, all: bool) -> Vec<String> {
    if outline::lines(catalog).iter().all(|line| line.tensors == 0) {
        return Vec::new();
    }
    let (part, mut left_out) = match part::take(catalog.clone(), &Part::Auto, true) {
        Ok(taken) => taken,
        Err(error) => return vec![error.message().to_owned()],
    };
    left_out.extend(of_state(&part, false));
    let left_out: Vec<String> = left_out.into_iter().map(|loss| loss.what).collect();
    let count = terminal::counted(part.tensors().len() as u64, "tensor");
    let mut lines = vec![format!("{count} kept; left out:")];
    let most = if all { usize::MAX } else { MAX_WRAPPED };
    lines.extend(wrapped(&left_out, most).iter().map(|line| format!("  {line}")));
    lines
}

/// Arranges items next to each other on at most `most` lines. If items do not fit, adds the number
/// of omitted items.
fn wrapped(items: &[String], most: usize) -> Vec<String> {
    // Number of characters reserved in the last line for the number of omitted items.
    const TAIL: usize = 40;
    const INDENT: usize = 4;
    let widest = terminal::columns().saturating_sub(INDENT);
    let mut lines = vec![String::new()];
    for (index, item) in items.iter().enumerate() {
        let item = if index + 1 < items.len() { format!("{item}, ") } else { item.clone() };
        let has_room = lines.len() < most;
        let is_full = has_room || index + 1 == items.len();
        let width = if is_full { widest } else { widest.saturating_sub(TAIL) };
        let Some(line) = lines.last_mut() else { break };
        if line.is_empty() || line.chars().count() + item.trim_end().chars().count() <= width {
            line.push_str(&item);
        } else if has_room {
            lines.push(item);
        } else {
            line.push_str(&format!("... and {} more (--all shows them)", items.len() - index));
            break;
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

fn section(text: &mut String, title: &str, lines: impl ExactSizeIterator<Item = String>) {
    if lines.len() > 0 {
        let _ = writeln!(text, "\n{title}");
        for line in lines {
            let shown: String = printable(&line).chars().take(200).collect();
            let _ = writeln!(text, "  {}", shown.trim_end());
        }
    }
}

enum TensorRow<'a> {
    Tensor(usize, &'a Tensor),
    /// A weight that consists of several tensors. Its tensors have separate lines only if the user
    /// requests all tensors.
    Weight(&'a Composite),
}

fn rows<'a>(catalog: &'a Catalog, weights: &'a [Composite], each: bool) -> Vec<TensorRow<'a>> {
    let mut first: HashMap<&str, &Composite> = HashMap::new();
    for weight in weights {
        first.extend(weight.parts.first().map(|part| (part.as_str(), weight)));
    }
    let parts: HashSet<&str> = weights.iter().flat_map(|weight| &weight.parts).map(String::as_str).collect();
    let mut rows = Vec::new();
    for (index, tensor) in catalog.tensors().iter().enumerate() {
        rows.extend(first.get(tensor.name.as_str()).map(|weight| TensorRow::Weight(weight)));
        if each || !parts.contains(tensor.name.as_str()) {
            rows.push(TensorRow::Tensor(index, tensor));
        }
    }
    rows
}

fn table(catalog: &Catalog, weights: &[Composite], most: usize, hashed: Option<&TensorDigests>) -> String {
    let rows = rows(catalog, weights, most == usize::MAX || hashed.is_some());
    let name = |row: &TensorRow<'_>| match row {
        TensorRow::Tensor(_, tensor) => printable(&tensor.name),
        TensorRow::Weight(weight) => printable(&weight.name),
    };
    let names: Vec<String> = rows.iter().take(most).map(name).collect();
    let width = terminal::width(&names);
    let mut text = String::from("\n");
    for (row, name) in rows.iter().zip(&names) {
        let line = match row {
            TensorRow::Tensor(index, tensor) => {
                let mut line = facts(dtype_name(catalog, tensor), &tensor.shape, tensor.bytes);
                if let Some((_, digests)) = hashed {
                    let _ = write!(line, "  {}", hex(&digests[*index]));
                }
                for (key, value) in &tensor.attributes {
                    let value =
                        printable(&line_of(value).chars().take(MAX_VALUE_CHARACTERS).collect::<String>());
                    let _ = write!(line, "  {}={value}", printable(key));
                }
                line
            }
            TensorRow::Weight(weight) => {
                let bits = weight.bits_per_weight.map_or(String::new(), |bits| format!("{bits} bits"));
                let parts = description::parts(&weight.name, &weight.parts);
                format!("{}  of {}", facts(&bits, &weight.shape, weight.bytes), printable(&parts))
            }
        };
        let _ = writeln!(text, "  {name:width$}  {line}");
    }
    if rows.len() > names.len() {
        let _ = writeln!(text, "  ... and {} more (--all shows them)", rows.len() - names.len());
    }
    text
}

/// Formats a dtype, a shape and a size as columns.
fn facts(dtype: &str, shape: &[u64], bytes: u64) -> String {
    let shape: Vec<String> = shape.iter().map(u64::to_string).collect();
    let facts = format!("{dtype} [{}]", shape.join(", "));
    format!("{facts:24}  {:>9}", terminal::bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_of_a_standard_global_is_not_standard() {
        for global in [
            "collections.OrderedDict",
            "torch._utils._rebuild_tensor_v2",
            "torch.FloatStorage",
            "torch.storage.UntypedStorage",
        ] {
            assert!(is_standard(global), "{global}");
        }
        for global in [
            "torch._utils._rebuild_tensor_v2.__globals__",
            "torch.storage.x.Storage",
            "torch.hub.Storage",
            "torch.load",
            "builtins.eval",
        ] {
            assert!(!is_standard(global), "{global}");
        }
    }
}
