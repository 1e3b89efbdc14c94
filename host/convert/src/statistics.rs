//! Statistics of the numbers in each tensor of a model, and findings about suspicious properties.
//! Quantized weights are dequantized first.

mod document;
mod findings;

pub use findings::{Finding, FindingKind};

use crate::inspect::temporary;
use crate::steps;
use std::collections::{BTreeMap, HashMap, HashSet};
use tensorferry_core::context::session::Session;
use tensorferry_core::read::context::ReadContext;
use tensorferry_core::read::input::{self, TensorInput};
use tensorferry_core::read::part::{self, Part};
use tensorferry_core::read::weights::globs;
use tensorferry_sdk::{Catalog, CatalogView, Error, OptionSpec, Purpose, Result, Side, TensorId};
use tensorferry_tensors::logical::Logical;
use tensorferry_tensors::statistics::{Statistics, StatisticsKind, statistics};
use tensorferry_tensors::steps::dequantize::{QuantizedModel, READER_OPTION, quantized};
use tensorferry_tensors::steps::model_config::ModelConfig;
use tensorferry_tensors::steps::{ModelFacts, apply_to};
use tensorferry_tensors::stored::Stored;

/// A request for statistics: the input and the selection of its tensors.
#[derive(Clone, Copy)]
pub struct StatisticsRequest<'a> {
    /// The input, which is not modified.
    pub input: &'a TensorInput,
    /// The options of the input's reader.
    pub options: &'a [(String, String)],
    pub part: &'a Part,
    /// Globs of tensor names. If there are no globs, all tensors are included. A weight that
    /// consists of several tensors matches by its own name or by the name of one of these tensors.
    pub patterns: &'a [String],
    /// Whether to compute histograms, which requires a second pass over the data.
    pub histograms: bool,
}

#[derive(Debug)]
pub struct ModelStatistics {
    /// Statistics of each tensor, in the input's order.
    pub tensors: Vec<TensorStatistics>,
    pub findings: Vec<Finding>,
    pub notes: Vec<String>,
}

/// Statistics of a tensor, or of a weight that consists of several tensors.
#[derive(Debug)]
pub struct TensorStatistics {
    pub name: String,
    /// The dtype of the tensor in the file.
    pub dtype: String,
    pub shape: Vec<u64>,
    /// Whether the statistics describe dequantized numbers.
    pub(crate) is_dequantized: bool,
    /// The tensors that the weight consists of, except the tensor that has the weight's own name.
    pub parts: Vec<String>,
    /// The statistics, or the reason why they are missing.
    pub found: Result<Statistics, String>,
}

pub fn model_statistics(request: &StatisticsRequest<'_>, session: &Session) -> Result<ModelStatistics> {
    let mut notes = Vec::new();
    let reread = dequantized_by_reader(request, session, &mut notes)?;
    let input = reread.as_ref().unwrap_or(request.input);
    let (catalog, _) = part::take(input.catalog.clone(), request.part, true)?;
    let mut model = Dequantized::of(catalog.unpacked().0, input, session, &mut notes);
    let stored: HashMap<&str, &str> = dtypes(&request.input.catalog).collect();
    let taken = part_of(request)?;
    let stored_of_part: HashMap<&str, &str> = taken.iter().flat_map(dtypes).collect();
    let dtype_of = |name: &str| stored_of_part.get(name).or_else(|| stored.get(name)).copied();
    model.add_parts(taken.as_ref().unwrap_or(&request.input.catalog));
    let wanted = selected_tensors(&model, request.patterns)?;

    let catalog = &model.catalog;
    let logical = Logical::new(Stored::new(input, catalog, session, temporary()));
    let mut kinds: Vec<(TensorId, StatisticsKind)> = Vec::new();
    let mut places: HashMap<TensorId, Result<usize, String>> = HashMap::new();
    for &id in &wanted {
        let first = logical.tied_to(id);
        if places.contains_key(&first) {
            continue;
        }
        let dtype = logical.tensor(first).dtype;
        let place = match model.problem_of(logical.tensor(id).name) {
            Some(problem) => Err(problem.to_owned()),
            None => StatisticsKind::of(dtype, &logical.dtype_info(dtype)?).map(|kind| {
                kinds.push((first, kind));
                kinds.len() - 1
            }),
        };
        places.insert(first, place);
    }
    let mut found = statistics(&logical, &kinds, request.histograms)?;
    findings::count_rows(&logical, &kinds, &mut found)?;

    let mut tensors = Vec::with_capacity(wanted.len());
    for &id in &wanted {
        let tensor = logical.tensor(id);
        let info = logical.dtype_info(tensor.dtype)?;
        let own = info.name();
        let parts = model.parts.get(tensor.name).cloned().unwrap_or_default();
        let dtype = dtype_of(tensor.name).unwrap_or(if parts.is_empty() { own } else { &model.method });
        let place = places.get(&logical.tied_to(id)).cloned();
        let place = place.unwrap_or_else(|| Err("it was not read".to_owned()));
        tensors.push(TensorStatistics {
            name: tensor.name.to_owned(),
            dtype: dtype.to_owned(),
            shape: tensor.shape.to_vec(),
            is_dequantized: place.is_ok() && dtype != own,
            parts,
            found: place.map(|place| found[place].clone()),
        });
    }
    let findings = findings::of(&logical, &wanted, &tensors)?;
    drop(logical);
    drop(model);
    reread.map_or(Ok(()), TensorInput::close)?;
    Ok(ModelStatistics { tensors, findings, notes })
}

/// Returns the names of a catalog's tensors and of their dtypes.
fn dtypes(catalog: &Catalog) -> impl Iterator<Item = (&str, &str)> {
    let name = |dtype| catalog.dtype_info(dtype).map_or("?", |info| info.name());
    catalog.tensors().iter().map(move |tensor| (tensor.name.as_str(), name(tensor.dtype)))
}

/// Returns the stored form of the selected part's catalog. Returns `None` if the whole input is
/// selected, because the tensors then have the same names as in the input's catalog.
fn part_of(request: &StatisticsRequest<'_>) -> Result<Option<Catalog>> {
    if *request.part == Part::Whole {
        return Ok(None);
    }
    Ok(Some(part::take(request.input.catalog.clone(), request.part, true)?.0))
}

/// Reads the input again, with the option that makes its reader dequantize its own quantized types.
/// Returns `None` if the format has no such types, or if the option is already set.
fn dequantized_by_reader(
    request: &StatisticsRequest<'_>,
    session: &Session,
    notes: &mut Vec<String>,
) -> Result<Option<TensorInput>> {
    let StatisticsRequest { input, options, .. } = *request;
    let is_quantized =
        |dtype| input.catalog.dtype_info(dtype).is_none_or(|info| StatisticsKind::of(dtype, info).is_err());
    let is_option = |spec: &OptionSpec| spec.side == Side::Reader && spec.key == READER_OPTION;
    let is_told = options.iter().any(|(key, _)| key == READER_OPTION);
    if is_told
        || !input.format.description.options.iter().any(is_option)
        || !input.catalog.tensors().iter().any(|tensor| is_quantized(tensor.dtype))
    {
        return Ok(None);
    }
    let mut options = options.to_vec();
    options.push((READER_OPTION.to_owned(), "f32".to_owned()));
    let context = ReadContext::new(session, Purpose::SHOW);
    match input::read(&input.source, &input.format, &options, &context) {
        Ok(read) => Ok(Some(read)),
        Err(error) if is_permanent(&error) => {
            notes.push(format!("quantized tensors are skipped: {error}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Returns whether the input's content caused an error, which would therefore recur.
fn is_permanent(error: &Error) -> bool {
    use tensorferry_sdk::ErrorKind::{Malformed, Unsupported};
    matches!(error.kind(), Malformed | Unsupported)
}

/// A catalog in which each weight that consists of several tensors is replaced by its dequantized
/// numbers.
struct Dequantized {
    catalog: Catalog,
    /// The name of the quantization method.
    method: String,
    /// The tensors that each replaced weight consists of, by the name of the weight.
    parts: BTreeMap<String, Vec<String>>,
    /// Tensors that cannot be dequantized, each with the reason.
    problems: BTreeMap<String, String>,
}

impl Dequantized {
    fn of(catalog: Catalog, input: &TensorInput, session: &Session, notes: &mut Vec<String>) -> Self {
        let config = ModelConfig::read(&input.source).unwrap_or_default();
        let model = ModelFacts { config, input, session };
        let Some(QuantizedModel { method, weights, problem, .. }) = quantized(&catalog, &model) else {
            let (method, parts, problems) = (String::new(), BTreeMap::new(), BTreeMap::new());
            return Self { catalog, method, parts, problems };
        };
        let name_of = |id: &TensorId| catalog.tensor(*id).map(|tensor| tensor.name.clone());
        let parts: BTreeMap<String, Vec<String>> = weights
            .iter()
            .map(|weight| (weight.name.clone(), weight.parts.iter().filter_map(name_of).collect()))
            .collect();
        let step = || steps::of_format(&["dequantize:f32".to_owned()]);
        let applied = step().and_then(|steps| apply_to(catalog.clone(), &model, &steps));
        match (applied, problem) {
            (Ok((dequantized, _)), None) => {
                Self { catalog: dequantized, method, parts, problems: BTreeMap::new() }
            }
            (applied, problem) => {
                let why = match (applied, problem) {
                    (Err(error), _) | (Ok(_), Some(error)) => error.to_string(),
                    (Ok(_), None) => String::new(),
                };
                notes.push(format!("weights of {method} are not dequantized: {why}"));
                let problem = |name: &String| (name.clone(), format!("part of a {method} weight: {why}"));
                let problems = parts.values().flatten().map(problem).collect();
                Self { catalog, method, parts: BTreeMap::new(), problems }
            }
        }
    }

    /// Adds the tensors that a reader has combined into one weight, such as PyTorch's scales and
    /// zero points. The names of these tensors start with the weight's name.
    fn add_parts(&mut self, stored: &Catalog) {
        let names: HashSet<&str> = self.catalog.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
        let known: HashSet<String> = self.parts.values().flatten().cloned().collect();
        for tensor in stored.tensors() {
            let name = tensor.name.as_str();
            let weight =
                name.rsplit_once('.').map(|(weight, _)| weight).filter(|weight| names.contains(weight));
            if let (Some(weight), false, false) = (weight, names.contains(name), known.contains(name)) {
                self.parts.entry(weight.to_owned()).or_default().push(name.to_owned());
            }
        }
    }

    fn problem_of(&self, name: &str) -> Option<&str> {
        self.problems.get(name).map(String::as_str)
    }
}

/// Returns the tensors whose own name, or the name of one of their parts, matches a pattern.
fn selected_tensors(model: &Dequantized, patterns: &[String]) -> Result<Vec<TensorId>> {
    let globs = globs(patterns)?;
    let tensors = || (0..).map(TensorId).zip(model.catalog.tensors());
    let is_wanted = |name: &str| {
        let parts = model.parts.get(name).into_iter().flatten();
        patterns.is_empty() || globs.is_match(name) || parts.into_iter().any(|part| globs.is_match(part))
    };
    let found: Vec<TensorId> =
        tensors().filter(|(_, tensor)| is_wanted(&tensor.name)).map(|(id, _)| id).collect();
    if found.is_empty() && !patterns.is_empty() {
        let error = Error::usage(format!("no tensor name matches {}", patterns.join(" or ")));
        let example = tensors().next().map(|(_, tensor)| format!("names such as {:?}", tensor.name));
        return Err(error.found(example.unwrap_or_else(|| "no tensors".to_owned())));
    }
    Ok(found)
}
