//! The statistics of a model: of each tensor's numbers, those of quantised weights as what they stand for, and what
//! of all that is worth a look.
//!
//! A tensor that would need a gather is read in its stored pieces, since the order of its numbers
//! does not matter. Quantized weights are read through the storages that `dequantize` makes. These
//! take a second pass: histograms, counting rows of zeros if there are enough zeros, and hashing if
//! two tensors have the same statistics.

mod document;
mod findings;

pub use findings::{Finding, FindingKind};

use crate::inspect::temporary;
use crate::steps;
use std::collections::{BTreeMap, HashMap, HashSet};
use tensorferry_core::context::session::Session;
use tensorferry_core::read::context::ReadContext;
use tensorferry_core::read::input::{self, Input};
use tensorferry_core::read::part::{self, Part};
use tensorferry_core::read::weights::globs;
use tensorferry_sdk::{Catalog, CatalogView, Error, OptionSpec, Purpose, Result, Side, TensorId};
use tensorferry_tensors::logical::Logical;
use tensorferry_tensors::statistics::{Kind, Statistics, statistics};
use tensorferry_tensors::steps::dequantize::{QuantizedModel, READER_OPTION, quantized};
use tensorferry_tensors::steps::model_config::ModelConfig;
use tensorferry_tensors::steps::{ModelFacts, apply_to};
use tensorferry_tensors::stored::Stored;

/// Of what statistics are taken, and which.
#[derive(Clone, Copy)]
pub struct StatisticsRequest<'a> {
    /// An input that was read, and stays as it is.
    pub input: &'a Input,
    /// What its reader was told.
    pub options: &'a [(String, String)],
    /// Which part of it.
    pub part: &'a Part,
    /// Globs of names; none: all tensors. A weight that is several tensors has its own name and those of its parts.
    pub patterns: &'a [String],
    /// Whether there are histograms, which takes a second pass.
    pub histograms: bool,
}

/// What a model's numbers come to.
#[derive(Debug)]
pub struct ModelStatistics {
    /// Of each tensor, in the input's order.
    pub tensors: Vec<TensorStatistics>,
    /// What is worth a look.
    pub findings: Vec<Finding>,
    /// What a person should know beside that.
    pub notes: Vec<String>,
}

/// What the elements of a tensor come to, or of a weight that is several tensors.
#[derive(Debug)]
pub struct TensorStatistics {
    /// Its name.
    pub name: String,
    /// The dtype that it is stored in.
    pub dtype: String,
    /// Its dimensions.
    pub shape: Vec<u64>,
    /// Whether these are the numbers that quantised ones stand for.
    pub(crate) is_dequantized: bool,
    /// The tensors that it is made of, beside one of its own name.
    pub parts: Vec<String>,
    /// What they come to, or why nobody can tell.
    pub found: Result<Statistics, String>,
}

/// Takes the statistics of a model's tensors.
///
/// # Errors
/// Usage, for a pattern that is none, or matches nothing; whatever reading gives.
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
    let wanted = wanted(&model, request.patterns)?;

    let catalog = &model.catalog;
    let logical = Logical::new(Stored::new(input, catalog, session, temporary()));
    let mut kinds: Vec<(TensorId, Kind)> = Vec::new();
    let mut places: HashMap<TensorId, Result<usize, String>> = HashMap::new();
    for &id in &wanted {
        let first = logical.tied_to(id);
        if places.contains_key(&first) {
            continue;
        }
        let dtype = logical.tensor(first).dtype;
        let place = match model.problem_of(logical.tensor(id).name) {
            Some(problem) => Err(problem.to_owned()),
            None => Kind::of(dtype, &logical.dtype_info(dtype)?).map(|kind| {
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
        let place = place.unwrap_or_else(|| Err("it was not looked at".to_owned()));
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
    reread.map_or(Ok(()), Input::close)?;
    Ok(ModelStatistics { tensors, findings, notes })
}

/// The names of a catalog's tensors, and of their dtypes.
fn dtypes(catalog: &Catalog) -> impl Iterator<Item = (&str, &str)> {
    let name = |dtype| catalog.dtype_info(dtype).map_or("?", |info| info.name());
    catalog.tensors().iter().map(move |tensor| (tensor.name.as_str(), name(tensor.dtype)))
}

/// The part that is looked at, as it is stored, where its names are not those of the whole.
fn part_of(request: &StatisticsRequest<'_>) -> Result<Option<Catalog>> {
    if *request.part == Part::Whole {
        return Ok(None);
    }
    Ok(Some(part::take(request.input.catalog.clone(), request.part, true)?.0))
}

/// The input, read again so that its reader gives the numbers that types of its own stand for; `None`, where there
/// are none of these, or it has been told already.
fn dequantized_by_reader(
    request: &StatisticsRequest<'_>,
    session: &Session,
    notes: &mut Vec<String>,
) -> Result<Option<Input>> {
    let StatisticsRequest { input, options, .. } = *request;
    let is_quantized =
        |dtype| input.catalog.dtype_info(dtype).is_none_or(|info| Kind::of(dtype, info).is_err());
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
        Err(error) if is_for_good(&error) => {
            notes.push(format!("quantised tensors are not looked at: {error}"));
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether an error is of what the input holds, and not of this run.
fn is_for_good(error: &Error) -> bool {
    use tensorferry_sdk::ErrorKind::{Malformed, Unsupported};
    matches!(error.kind(), Malformed | Unsupported)
}

/// A catalog in which weights that were several tensors are the numbers that they stand for.
struct Dequantized {
    catalog: Catalog,
    /// What the method is called.
    method: String,
    /// The parts of each such weight.
    parts: BTreeMap<String, Vec<String>>,
    /// Tensors whose numbers stand for others, of which nobody knows, and why.
    problems: BTreeMap<String, String>,
}

impl Dequantized {
    fn of(catalog: Catalog, input: &Input, session: &Session, notes: &mut Vec<String>) -> Self {
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
                notes.push(format!("weights of {method} are not dequantised: {why}"));
                let problem = |name: &String| (name.clone(), format!("part of a weight of {method}: {why}"));
                let problems = parts.values().flatten().map(problem).collect();
                Self { catalog, method, parts: BTreeMap::new(), problems }
            }
        }
    }

    /// Adds tensors that a reader has made others of: scales and zero points of torch's, which have the name of what
    /// they belong to before their own.
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

/// The tensors whose names, or the names of whose parts, one of the patterns matches.
fn wanted(model: &Dequantized, patterns: &[String]) -> Result<Vec<TensorId>> {
    let globs = globs(patterns)?;
    let tensors = || (0..).map(TensorId).zip(model.catalog.tensors());
    let is_wanted = |name: &str| {
        let parts = model.parts.get(name).into_iter().flatten();
        patterns.is_empty() || globs.is_match(name) || parts.into_iter().any(|part| globs.is_match(part))
    };
    let found: Vec<TensorId> =
        tensors().filter(|(_, tensor)| is_wanted(&tensor.name)).map(|(id, _)| id).collect();
    if found.is_empty() && !patterns.is_empty() {
        let error = Error::usage(format!("no name of a tensor matches {}", patterns.join(" or ")));
        let example = tensors().next().map(|(_, tensor)| format!("names such as {:?}", tensor.name));
        return Err(error.found(example.unwrap_or_else(|| "no tensors".to_owned())));
    }
    Ok(found)
}
