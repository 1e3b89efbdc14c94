//! The step `dequantize` converts quantized weights to floats.
//!
//! If a format has its own quantized types, the reader of the format decodes them if the host sets
//! the reader's option `dequantize`. The step then handles the weights that consist of several
//! plain tensors, as saved by MLX and by the quantization libraries for transformers. Most methods
//! are in separate files.
//!
//! | File | Contents |
//! |---|---|
//! | `scheme.rs` | how a model's weights were quantized, from `config.json` |
//! | `names.rs` | how a model's weights were quantized, from tensor names; codes recognized by name |
//! | `layers.rs` | the parts of a weight, by name |
//! | `bitsandbytes.rs`, `by_columns.rs` (GPTQ, AWQ), `compressed_tensors.rs`, `float8.rs`, `mxfp4.rs`, `mlx.rs` | the weights of each method |
//! | `weights.rs` | all weights of a model, for any method; the tensors that are codes |
//! | `scaled.rs`, `codes.rs` | rows of codes with a grid of scales, which most methods use |
//! | `computed.rs` | a storage that computes a weight when it is read |
//!
//! The step itself does not compute values. It replaces a weight with a storage that refers to the
//! parts of the weight. The copy reads the parts that it needs, and computes the values. Values are
//! computed in F32 with one rounding per operation, and then rounded to the requested dtype. The
//! original libraries compute in F16 or BF16, so their results are slightly different.

mod codes;
mod computed;
mod layers;
mod scaled;
mod scheme;

mod bitsandbytes;
mod by_columns;
mod compressed_tensors;
mod float8;
mod mlx;
mod mxfp4;

mod names;
mod weights;

use super::model_facts::ModelFacts;
use super::rebuild::{StepTensor, rebuild};
use super::signature::{ArgumentSpec, CheckedSpec, Key, Signature};
use super::spec::Spec;
use super::tensor_step::{Effects, TensorAction, TensorStep};
use computed::{Dequantized, Weight};
use layers::Layers;
use names::COMFY_METADATA;
pub use names::may_hold_codes;
use scheme::Scheme;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use tensorferry_sdk::{
    Block, Catalog, Data, Dtype, Error, Loss, LossKind, Region, Result, StorageId, Tensor, TensorId, Value,
    element_count,
};
use weights::{FoundWeights, find};
pub use weights::{QuantizedModel, QuantizedWeight, StoredCodes, quantized};

pub(super) static DEQUANTIZE: Signature = Signature {
    name: "dequantize",
    summary: "convert quantized weights to floats",
    details: "\
Converts blocks of GGUF, quantized tensors of torch, and checkpoints of bitsandbytes (NF4, FP4,\n\
int8), GPTQ, AWQ (gemm), compressed-tensors, FP8 with scales, MXFP4, NVFP4 and MLX. Removes scales,\n\
zero points and the like, and quantization_config in config.json. The default dtype is the one that\n\
config.json names, otherwise F32. The step needs the input's own names: only select, drop and steps\n\
on metadata may come before it. Without a config.json, the names of the tensors determine the\n\
method if possible. Weights of other methods are an error.",
    argument: ArgumentSpec::Optional("f32|f16|bf16", "the dtype of the floats"),
    keys: &[Key::optional(
        "missing_scale",
        "1",
        "use this scale for FP8 weights without one, instead of an error",
    )],
    selects: false,
    examples: &["dequantize", "dequantize:bf16", "dequantize:f32,missing_scale=1"],
};

/// Steps that may precede `dequantize`, because they do not change the names and shapes of the
/// input's tensors.
const ALLOWED_EARLIER_STEPS: [&str; 4] = ["select", "drop", "set_metadata", "drop_metadata"];

/// The key of the metadata entry in which torchao lists the names of the original tensors in a
/// safetensors file.
const TORCHAO_NAMES: &str = "tensor_names";

/// The name of the option that requests dequantization from readers with their own quantized types.
pub const READER_OPTION: &str = "dequantize";

#[derive(Debug)]
struct Dequantize {
    /// The requested dtype; `None` for the dtype in the model's configuration.
    to: Option<Dtype>,
    may_lack_scale: bool,
}

pub(super) fn dequantize(spec: &CheckedSpec<'_>) -> Result<TensorAction> {
    let may_lack_scale = match spec.one("missing_scale") {
        Some(field) if field.text == "1" => true,
        Some(field) => return Err(field.error(format!("expected 1, found {:?}", field.text))),
        None => false,
    };
    Ok(Box::new(Dequantize { to: spec.argument().map(dtype).transpose()?, may_lack_scale }))
}

fn dtype(field: &super::spec::Field) -> Result<Dtype> {
    match &*field.text.to_ascii_lowercase() {
        "f32" | "float32" => Ok(Dtype::F32),
        "f16" | "float16" => Ok(Dtype::F16),
        "bf16" | "bfloat16" => Ok(Dtype::BF16),
        _ => Err(field.error(format!("expected f32, f16 or bf16, found {:?}", field.text))),
    }
}

/// Returns the dtype to which the steps of a conversion dequantize weights. The host passes this
/// dtype to the readers. Returns `None` if no step is `dequantize`. `Some(None)` stands for the
/// dtype in the model's configuration. Returns an error if a step before `dequantize` changes names
/// or shapes, or if there are two `dequantize` steps.
pub fn requested_dtype<'a>(steps: impl Iterator<Item = &'a Spec>) -> Result<Option<Option<Dtype>>> {
    let mut requested = None;
    let mut before: Option<&Spec> = None;
    for spec in steps {
        if spec.name == DEQUANTIZE.name {
            if let Some(before) = before {
                return Err(Error::usage(format!(
                    "dequantize needs the input's own names, dtypes and shapes: put it before {}",
                    before.name
                )));
            }
            if requested.is_some() {
                return Err(Error::usage("dequantize is given twice"));
            }
            requested = Some(spec.argument.as_ref().map(dtype).transpose()?);
        } else if !ALLOWED_EARLIER_STEPS.contains(&&*spec.name) {
            before = Some(spec);
        }
    }
    Ok(requested)
}

impl TensorStep for Dequantize {
    fn apply(&self, catalog: Catalog, effects: &mut Effects) -> Result<Catalog> {
        self.dequantize(catalog, None, effects)
    }

    fn apply_to(&self, catalog: Catalog, model: &ModelFacts<'_>, effects: &mut Effects) -> Result<Catalog> {
        self.dequantize(catalog, Some(model), effects)
    }
}

impl Dequantize {
    fn dequantize(
        &self,
        catalog: Catalog,
        model: Option<&ModelFacts<'_>>,
        effects: &mut Effects,
    ) -> Result<Catalog> {
        effects.touched += usize::from(was_dequantized(&catalog));
        note_packed(&catalog, effects);
        let no_config = super::model_config::ModelConfig::default();
        let config = model.map_or(&no_config, |model| &model.config);
        let to = self.to.or_else(|| config.dtype()).unwrap_or(Dtype::F32);
        if model.is_some_and(|model| model.input.codes_are_numbers) {
            return Err(Error::usage(
                "the option -i codes=numbers and the step dequantize cannot be combined",
            )
            .hint("pass only one of them"));
        }
        let scheme = Scheme::of(config)?;
        let layers = Layers::of(&catalog, model);
        let found = find(scheme.as_ref(), &layers, self.may_lack_scale);
        let FoundWeights { method, weights, unknown } = found.map_err(|error| match model {
            Some(model) if drops_parts(&catalog, model) => {
                Error::usage("an earlier step drops a part that a quantized weight needs")
                    .hint("put dequantize before that step")
            }
            _ => error,
        })?;
        if let Some(codes) = unknown.first() {
            return Err(match &scheme {
                Some(Scheme::Uncovered(name)) => unsupported_method(name).tensor(codes.name),
                _ => codes.error(),
            });
        }
        if let Some(model) = model.filter(|_| may_hold_codes(&catalog)) {
            // Some codes may remain, for example codes whose scales were removed by an earlier
            // step.
            let codes = StoredCodes::of(model);
            let parts: HashSet<TensorId> =
                weights.iter().flat_map(|weight| weight.layer.parts.iter().copied()).collect();
            let tensors = (0..).map(TensorId).zip(catalog.tensors());
            let mut left = tensors.filter(|(id, _)| !parts.contains(id));
            if let Some((_, tensor)) = left.find(|(_, tensor)| codes.has(tensor)) {
                return Err(codes.error(tensor, "a dequantize step before the one that drops scales"));
            }
        }
        if weights.is_empty() {
            return match &scheme {
                Some(Scheme::Uncovered(name)) if may_hold_codes(&catalog) => Err(unsupported_method(name)),
                _ => Ok(catalog),
            };
        }
        let name = to.info().map_or("floats", |info| info.name());
        let why = format!("dequantized to {name}: the values are floats now, and no longer the stored codes");
        let what = format!("{} weights of {method}", weights.len());
        effects.losses.push(Loss::new(LossKind::Precision, what, why).requested_by_user());
        effects.touched += weights.len();
        effects.dequantized = Some(to);
        let parts: Vec<DequantizedWeight> =
            weights.into_iter().map(|weight| dequantized_weight(weight, to)).collect::<Result<_>>()?;
        drop(layers);
        let replaced = replace(catalog, parts, to, effects);
        replaced.map(without_descriptions).map_err(|error| error.context(format!("weights of {method}")))
    }
}

/// A dequantized weight that is ready to replace its parts.
struct DequantizedWeight {
    name: String,
    place: TensorId,
    parts: Vec<TensorId>,
    shape: Vec<u64>,
    is_turned: bool,
    bytes: u64,
    /// The locations of the weight's parts. Weights with the same parts are tied.
    extents: Vec<layers::Extent>,
    computed: Arc<Dequantized>,
}

fn dequantized_weight(weight: Weight<'_>, to: Dtype) -> Result<DequantizedWeight> {
    let Weight { layer, shape, is_turned, method } = weight;
    let bytes = to.info().map_or(Ok(0), |info| info.bytes_of(element_count(&shape)?));
    Ok(DequantizedWeight {
        bytes: bytes.map_err(|error| error.tensor(&layer.name))?,
        extents: method.parts(),
        computed: Arc::new(Dequantized::new(&layer.name, to, method)?),
        name: layer.name,
        place: layer.place,
        parts: layer.parts.into_iter().collect(),
        shape,
        is_turned,
    })
}

/// Replaces the parts of weights with the dequantized weights.
fn replace(
    mut catalog: Catalog,
    weights: Vec<DequantizedWeight>,
    to: Dtype,
    effects: &mut Effects,
) -> Result<Catalog> {
    let mut made: HashMap<TensorId, Tensor> = HashMap::new();
    let mut gone = vec![false; catalog.tensors().len()];
    let mut tied: HashMap<(Vec<layers::Extent>, Vec<u64>), StorageId> = HashMap::new();
    for weight in weights {
        weight.parts.iter().for_each(|part| gone[part.0 as usize] = true);
        let known = tied.get(&(weight.extents.clone(), weight.shape.clone())).copied();
        let storage = match known {
            Some(storage) => storage,
            None => catalog.add_computed(weight.computed, weight.bytes)?,
        };
        tied.insert((weight.extents, weight.shape.clone()), storage);
        let (shape, data) = placed(weight.shape, weight.is_turned, storage);
        let (name, bytes, attributes) = (weight.name, weight.bytes, BTreeMap::new());
        made.insert(weight.place, Tensor { name, dtype: to, shape, bytes, data, attributes });
    }
    let plain = plain_names(&catalog);
    let mut tensors = Vec::new();
    for (id, tensor) in (0..).map(TensorId).zip(catalog.tensors()) {
        if let Some(tensor) = made.remove(&id) {
            tensors.push(StepTensor { old: Some(id), tensor });
        } else if !gone[id.0 as usize] {
            let mut kept = StepTensor::kept(id, tensor);
            if let Some(name) = plain.get(tensor.name.as_str()) {
                kept.tensor.name.clone_from(name);
            }
            tensors.push(kept);
        }
    }
    rebuild(catalog, tensors, effects)
}

/// Returns a map from names in torchao's safetensors files to the original names, for tensors that
/// torchao did not quantize.
fn plain_names(catalog: &Catalog) -> HashMap<String, String> {
    let list = catalog.metadata().get(TORCHAO_NAMES).and_then(|value| value.as_text());
    let names: Vec<String> = list.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let stored = |name: String| {
        let (module, end) = name.rsplit_once('.').map_or(("", &*name), |(module, end)| (module, end));
        [(format!("{name}:_data"), name.clone()), (format!("{module}._{end}__data"), name.clone())]
    };
    names.into_iter().flat_map(stored).collect()
}

/// Returns the dimensions of a weight in the model, and the block that describes the weight's
/// elements in a storage.
fn placed(shape: Vec<u64>, is_turned: bool, storage: StorageId) -> (Vec<u64>, Data) {
    if !is_turned {
        return (shape, Data::Whole { storage, offset: 0 });
    }
    let mut strides = tensorferry_sdk::row_major_strides(&shape);
    let mut turned = shape;
    let last = turned.len() - 1;
    turned.swap(last - 1, last);
    strides.swap(last - 1, last);
    let block = Block { region: Region::whole(&turned), storage, offset: 0, strides };
    (turned, Data::Blocks(vec![block]))
}

/// Returns whether the reader has dequantized weights. In this case, the reader has reported a loss
/// of precision.
fn was_dequantized(catalog: &Catalog) -> bool {
    catalog.losses().iter().any(|loss| {
        loss.kind == LossKind::Precision
            && ["dequantized", "dequantised"].iter().any(|word| loss.why.starts_with(word))
    })
}

/// Adds a note about tensors that remain packed, because only the reader of their format can decode
/// them.
fn note_packed(catalog: &Catalog, effects: &mut Effects) {
    let mut names: BTreeMap<&str, u64> = BTreeMap::new();
    for tensor in catalog.tensors().iter().filter(|tensor| tensor.dtype.info().is_none()) {
        *names.entry(catalog.dtype_info(tensor.dtype).map_or("", |info| info.name())).or_default() += 1;
    }
    if names.is_empty() {
        return;
    }
    let (count, names): (u64, Vec<&str>) = (names.values().sum(), names.into_keys().collect());
    effects.touched += 1;
    effects.notes.push(format!(
        "{count} tensors of {} remain packed: only the reader for their format can dequantize them, so convert to that format first",
        names.join(", ")
    ));
}

/// Returns whether earlier steps have removed tensors from an input whose weights could all be
/// dequantized.
fn drops_parts(catalog: &Catalog, model: &ModelFacts<'_>) -> bool {
    let count = |catalog: &Catalog| catalog.tensors().len();
    count(catalog) < count(&model.input.catalog) && StoredCodes::of(model).can_be_dequantized()
}

/// Returns the error for a method that is not supported.
fn unsupported_method(method: &str) -> Error {
    Error::unsupported(format!("dequantize does not support the packing of {method} weights"))
        .hint("convert without this step to copy the weights unchanged")
}

/// Removes the metadata that describes weights as quantized: ComfyUI's entry, and torchao's entries
/// for each tensor.
fn without_descriptions(catalog: Catalog) -> Catalog {
    let is_of_torchao = |key: &str, value: &Value| {
        let has_tensor = || catalog.tensors().iter().any(|tensor| tensor.name == key);
        value.as_text().is_some_and(|text| text.contains("\"_type\"")) && has_tensor()
    };
    let has_torchao = catalog.metadata().iter().any(|(key, value)| is_of_torchao(key, value));
    if !has_torchao && !catalog.metadata().contains_key(COMFY_METADATA) {
        return catalog;
    }
    let is_gone = |key: &str, value: &Value| {
        key == COMFY_METADATA || has_torchao && (key == TORCHAO_NAMES || is_of_torchao(key, value))
    };
    let mut metadata = catalog.metadata().clone();
    metadata.retain(|key, value| !is_gone(key, value));
    catalog.with_metadata(metadata)
}
