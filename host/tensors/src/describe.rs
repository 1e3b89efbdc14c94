//! Describes a model beyond its list of tensors: the quantization, the true number of parameters,
//! the architecture, the adapter, and the models in a single file. The sources are names, shapes,
//! metadata, and the small JSON files in the model's folder. Problems with these files are
//! reported, but are not errors.

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
use tensorferry_core::read::input::TensorInput;
use tensorferry_core::read::part::{self, Part};
use tensorferry_sdk::{Catalog, Dtype, Entry, Source};
use tokenizer::Tokenizer;

/// A description of a model. A field is empty if the model's files do not contain the information.
#[derive(Debug, Default, Serialize)]
pub struct ModelDescription {
    /// The class of the model, or the family of models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// The model's name, from its metadata.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The library that the model was saved for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// The mix of types that the file declares.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_type: Option<FileType>,
    /// The quantization of weights that consist of several tensors each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantization: Option<Quantization>,
    /// The adapter, if the input is an adapter and not a complete model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapter: Option<Adapter>,
    /// The models that a single file contains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub single_file: Option<SingleFile>,
    /// The tokenizer, from a folder without tensors or from the metadata of a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<Tokenizer>,
    /// The number of parameters, the bits per parameter, and the sizes by dtype.
    #[serde(flatten)]
    pub count: Count,
    /// Weights that consist of several tensors each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub weights: Vec<Composite>,
}

/// A description of how weights were quantized.
#[derive(Debug, Serialize)]
pub struct Quantization {
    pub method: String,
    /// The variant of the method, such as the number of bits and the group size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Number of quantized weights.
    pub weights: u64,
    /// Number of elements in the quantized weights.
    pub parameters: u64,
    /// Size of the quantized weights in bytes, including scales and zero points.
    pub bytes: u64,
    /// Average number of bits per element, including scales and zero points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bits_per_weight: Option<f64>,
    /// The reason why some or all weights cannot be dequantized. For such weights, the stored
    /// elements are counted as parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl ModelDescription {
    /// Returns whether the model is quantized. In a quantized model, weights consist of several
    /// tensors each, or tensors consist of blocks.
    #[must_use]
    pub fn is_quantized(&self) -> bool {
        self.quantization.is_some() || self.count.dtypes.values().any(|dtype| dtype.is_blocks)
    }
}

/// Describes the model of an input. `catalog` contains all tensors that were read, and `shown`
/// contains the tensors that are displayed.
#[must_use]
pub fn describe(
    input: &TensorInput,
    catalog: &Catalog,
    shown: &Catalog,
    session: &Session,
) -> ModelDescription {
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

/// Returns the weights whose parts are all shown.
fn kept(weights: Vec<Composite>, shown: &Catalog) -> Vec<Composite> {
    // Most models do not have such weights, and collecting a hundred thousand tensor names would be
    // wasted work.
    if weights.is_empty() {
        return weights;
    }
    let is_shown: HashSet<&str> = shown.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
    let kept = |weight: &Composite| weight.parts.iter().all(|part| is_shown.contains(part.as_str()));
    weights.into_iter().filter(kept).collect()
}

/// Returns the catalog of the model inside a nested checkpoint. Packed tensors are unpacked.
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
        // If the file does not contain quantized weights, a quantization configuration next to it
        // does not apply.
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
