//! A description says what a model is, beside its list of tensors: how it was quantised and how many parameters it truly
//! has, whose architecture, whose adapter, which models a single file holds. All of it comes from names, shapes, the
//! metadata, and the small JSON files of the model's folder; what these get wrong is said, and never an error.

pub mod adapter;
pub mod composite;
pub mod count;
pub mod file_type;
pub mod folder;
mod metadata;
pub mod pipeline;
pub mod single_file;
pub mod tokenizer;

use crate::steps::ModelFacts;
use crate::steps::dequantize::{QuantizedModel, quantized};
use crate::steps::model_config::ModelConfig;
use adapter::Adapter;
use composite::Composite;
use count::Count;
use file_type::FileType;
use metadata::Metadata;
use serde::Serialize;
use single_file::SingleFile;
use std::borrow::Cow;
use std::collections::HashSet;
use tensorferry_core::context::session::Session;
use tensorferry_core::read::input::Input;
use tensorferry_core::read::part::{self, Part};
use tensorferry_sdk::{Catalog, Dtype, Entry, Source};
use tokenizer::Tokenizer;

/// What a model is, as far as something says so.
#[derive(Debug, Default, Serialize)]
pub struct ModelDescription {
    /// The class of the model, or the family of models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// What it calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The library that it was saved for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// The mix of types that a file says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_type: Option<FileType>,
    /// How weights were quantised that are several tensors each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantization: Option<Quantization>,
    /// What it adapts, if it is no model of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<Adapter>,
    /// The models that one file holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_file: Option<SingleFile>,
    /// Its tokenizer, where it has no tensors, or where the metadata holds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<Tokenizer>,
    /// Parameters, bits, sizes by dtype.
    #[serde(flatten)]
    pub count: Count,
    /// Weights that are several tensors each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<Composite>,
}

/// How weights were quantised.
#[derive(Debug, Serialize)]
pub struct Quantization {
    /// The method.
    pub method: String,
    /// Which variant of it: bits, groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// How many weights.
    pub weights: u64,
    /// Numbers in these weights.
    pub parameters: u64,
    /// Bytes of these weights, with those of scales and zero points.
    pub bytes: u64,
    /// Bits that one of the numbers takes, its part of scales and zero points included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits_per_weight: Option<f64>,
    /// Why they are not dequantised, or not all; the number of parameters is that of what is stored, for those.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl ModelDescription {
    /// Whether numbers are stored in fewer bits than any float has: several tensors a weight, or blocks.
    #[must_use]
    pub fn is_quantized(&self) -> bool {
        self.quantization.is_some() || self.count.dtypes.values().any(|dtype| dtype.is_blocks)
    }
}

/// What an input is of which this catalog was read, and of which `shown` is looked at.
#[must_use]
pub fn describe(input: &Input, catalog: &Catalog, shown: &Catalog, session: &Session) -> ModelDescription {
    let catalog = &*of_model(catalog);
    let (config, config_problem) = match ModelConfig::read(&input.source) {
        Ok(config) => (config, None),
        Err(error) => (ModelConfig::default(), Some(error.to_string())),
    };
    let model = ModelFacts { config, input, session };
    let found = quantized(catalog, &model);
    let weights = found.iter().flat_map(|found| &found.weights);
    let all: Vec<Composite> = weights.map(|weight| Composite::of(weight, catalog)).collect();
    let is_of_config = *input.source.entry() == Entry::Folder || !all.is_empty();
    let config = model.config.json().filter(|_| is_of_config);
    let metadata = Metadata::of(catalog);
    let adapter = Adapter::of(catalog, folder::json(&input.source, folder::ADAPTER).as_ref(), &metadata);
    let single_file = SingleFile::of(catalog);
    let mut quantization = found.and_then(|found| Quantization::of(found, &all, catalog));
    if let (None, Some(problem), Entry::Folder) = (&quantization, config_problem, input.source.entry()) {
        quantization = Some(Quantization::unknown(problem));
    }
    let weights = kept(all, shown);
    ModelDescription {
        architecture: metadata
            .text("general.architecture")
            .or_else(|| metadata.text("modelspec.architecture"))
            .or_else(|| config.and_then(folder::architecture))
            .or_else(|| single_file.as_ref().and_then(|file| file.family).map(str::to_owned)),
        name: metadata.text("general.name").or_else(|| metadata.text("modelspec.title")),
        library: metadata
            .text("format")
            .filter(|library| library == "mlx")
            .or_else(|| config.and_then(folder::library)),
        file_type: metadata.number("general.file_type").map(FileType::of),
        quantization,
        adapter,
        single_file,
        tokenizer: Tokenizer::of_metadata(&metadata),
        count: Count::of(&of_model(shown), &weights),
        weights,
    }
}

/// The weights of which all parts are shown.
fn kept(weights: Vec<Composite>, shown: &Catalog) -> Vec<Composite> {
    // Most models have none, and may have a hundred thousand names.
    if weights.is_empty() {
        return weights;
    }
    let is_shown: HashSet<&str> = shown.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
    let kept = |weight: &Composite| weight.parts.iter().all(|part| is_shown.contains(part.as_str()));
    weights.into_iter().filter(kept).collect()
}

/// The part of a nested checkpoint that is its model, with the tensors restored that were packed.
fn of_model(catalog: &Catalog) -> Cow<'_, Catalog> {
    let has_tree = catalog.tree().root().is_some();
    let part = has_tree.then(|| part::take(catalog.clone(), &Part::Auto, true).ok()).flatten();
    let model = part.map_or(Cow::Borrowed(catalog), |(part, _)| Cow::Owned(part));
    let may_be_packed =
        !model.metadata().is_empty() && model.tensors().iter().any(|tensor| tensor.dtype == Dtype::U8);
    if may_be_packed { Cow::Owned(model.into_owned().unpacked().0) } else { model }
}

impl Quantization {
    fn of(found: QuantizedModel, weights: &[Composite], catalog: &Catalog) -> Option<Self> {
        let QuantizedModel { method, variant, problem, .. } = found;
        // A configuration beside a file says nothing of it, if the file has no such weights.
        if weights.is_empty() && problem.is_none() {
            return None;
        }
        let ties = catalog.ties();
        let own = || weights.iter().filter(|weight| weight.is_own(&ties));
        let parameters = own().map(Composite::parameters).fold(0, u64::saturating_add);
        let bytes = own().map(|weight| weight.bytes).fold(0, u64::saturating_add);
        Some(Self {
            method,
            variant,
            weights: weights.len() as u64,
            parameters,
            bytes,
            bits_per_weight: composite::bits(bytes, parameters),
            problem: problem.map(|error| error.to_string()),
        })
    }

    fn unknown(problem: String) -> Self {
        let method = "not known".to_owned();
        let (variant, bits_per_weight) = (None, None);
        Self { method, variant, weights: 0, parameters: 0, bytes: 0, bits_per_weight, problem: Some(problem) }
    }
}
