//! Finds quantized weights by the names of their tensors if no configuration describes the weights.
//! Examples are files copied out of their folder, single-file models, and shards.
//!
//! Codes and their scales are recognized only if tensors with both names of a pair exist. As a
//! result, the `scale` of a LayerNorm is not mistaken for a quantization scale, and an integer
//! counter is not mistaken for codes. Some pairs of names determine the method. Other pairs only
//! show that a tensor contains codes.

use super::bitsandbytes::{self, STATE};
use super::codes::CodePacking;
use super::computed::Weight;
use super::float8::{self, lacks_scale};
use super::layers::{Layer, Layers, shaped};
use super::scaled::{Formula, ScaleGrid, Scaled, Scales, row_bytes};
use super::{compressed_tensors, mxfp4};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet};
use tensorferry_sdk::{CODES_OF, Catalog, Dtype, Error, Result, Tensor, TensorId, element_count};

/// A pair of name suffixes: one for codes, and one for a sibling tensor such as the codes' scale.
/// The full names begin with the same prefix.
struct NamePair {
    codes: &'static str,
    sibling: &'static str,
    dtypes: Dtypes,
    by: PairMeaning,
}

/// The dtypes that codes may have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dtypes {
    /// Floats of at most 8 bits.
    Narrow,
    /// Floats of at most 8 bits, and signed 8-bit integers.
    Bytes,
    /// All dtypes except floats of more than 8 bits and the dtypes of counters and masks.
    Any,
}

/// The method that a pair of names identifies.
#[derive(Clone, Copy)]
enum PairMeaning {
    /// 8-bit floats or integers that are multiplied by a scale.
    Scaled,
    /// `ModelOpt`'s 4-bit floats.
    Nvfp4,
    /// Packed codes from compressed-tensors.
    Packed,
    /// The tensors of a torchao or quanto weight class: the suffix of the weight's name, and the
    /// suffix of the zero points.
    Parts { weight: &'static str, zeros: &'static str },
    /// A method with this name. The tensor names determine neither the number of bits nor the order
    /// of the codes.
    Unknown(&'static str),
}

const fn pair(codes: &'static str, sibling: &'static str, dtypes: Dtypes, by: PairMeaning) -> NamePair {
    NamePair { codes, sibling, dtypes, by }
}

/// The known pairs of names. If several pairs match, the first pair is used.
const PAIRS: [NamePair; 53] = [
    pair("", "_scale_2", Dtypes::Any, PairMeaning::Nvfp4),
    pair("", "_scale_inv", Dtypes::Narrow, PairMeaning::Scaled),
    pair("weight_packed", "weight_scale", Dtypes::Any, PairMeaning::Packed),
    pair("qweight", "scales", Dtypes::Any, PairMeaning::Unknown("GPTQ or AWQ")),
    pair("", "_scale", Dtypes::Any, PairMeaning::Scaled),
    pair(".weight", ".scale_weight", Dtypes::Bytes, PairMeaning::Scaled),
    pair(".weight", ".qscale_weight", Dtypes::Bytes, PairMeaning::Scaled),
    pair(".weight", ".scale", Dtypes::Narrow, PairMeaning::Scaled),
    pair(".weight", ".scale", Dtypes::Any, PairMeaning::Unknown("a method with a single scale tensor")),
    pair(".weight", ".weights_scaling_factor", Dtypes::Any, PairMeaning::Unknown("TensorRT-LLM")),
    pair(".weight", ".scales", Dtypes::Any, PairMeaning::Unknown("MLX")),
    pair("", "_scales", Dtypes::Any, PairMeaning::Unknown("a method with tensors of scales")),
    pair(":qdata", ":scale", Dtypes::Any, PairMeaning::Parts { weight: "", zeros: ":zero_point" }),
    pair(".qdata", ".scale", Dtypes::Any, PairMeaning::Parts { weight: "", zeros: ".zero_point" }),
    pair(
        "._weight_qdata",
        "._weight_scale",
        Dtypes::Any,
        PairMeaning::Parts { weight: ".weight", zeros: "._weight_zero_point" },
    ),
    pair(".tensor_impl.int_data", ".tensor_impl.scale", Dtypes::Any, PairMeaning::Unknown("torchao")),
    pair(".int_data", ".scale", Dtypes::Any, PairMeaning::Unknown("torchao")),
    pair(":qdata", ":scale_and_zero", Dtypes::Any, PairMeaning::Unknown("torchao")),
    pair(".qdata", ".scale_and_zero", Dtypes::Any, PairMeaning::Unknown("torchao")),
    pair("._weight_qdata", "._weight_scale_and_zero", Dtypes::Any, PairMeaning::Unknown("torchao")),
    pair(
        ".tensor_impl.packed_weight",
        ".tensor_impl.scale_and_zero",
        Dtypes::Any,
        PairMeaning::Unknown("torchao"),
    ),
    pair(".packed_weight", ".scale_and_zero", Dtypes::Any, PairMeaning::Unknown("torchao")),
    pair(".weight", ".scales_and_zeros", Dtypes::Any, PairMeaning::Unknown("gpt-fast")),
    pair("._data", "._scale_inv", Dtypes::Any, PairMeaning::Unknown("Transformer Engine")),
    pair("._data", "._scale", Dtypes::Any, PairMeaning::Parts { weight: "", zeros: "._shift" }),
    pair(".weight", ".SCB", Dtypes::Any, PairMeaning::Unknown("bitsandbytes")),
    pair("", ".absmax", Dtypes::Any, PairMeaning::Unknown("bitsandbytes")),
    pair(".weight", ".absmax", Dtypes::Any, PairMeaning::Unknown("bitsandbytes")),
    pair(".weight", ".weight_scaler", Dtypes::Any, PairMeaning::Unknown("Gemma")),
    pair(".weight", ".weight_quantizer._scale", Dtypes::Any, PairMeaning::Unknown("ModelOpt")),
    pair(".weight", ".per_channel_scale", Dtypes::Any, PairMeaning::Unknown("TensorRT-LLM")),
    pair(".weight", ".a", Dtypes::Bytes, PairMeaning::Unknown("SmoothQuant")),
    pair(".W_q", ".meta.scale", Dtypes::Any, PairMeaning::Unknown("HQQ")),
    pair(".B", ".s", Dtypes::Any, PairMeaning::Unknown("Marlin")),
    pair(".B", ".s_channel", Dtypes::Any, PairMeaning::Unknown("QQQ")),
    pair(".B_24", ".s", Dtypes::Any, PairMeaning::Unknown("Marlin")),
    pair(".indices", ".centroids.weight", Dtypes::Any, PairMeaning::Unknown("VPTQ")),
    pair("qweight", "lookup_table", Dtypes::Any, PairMeaning::Unknown("SqueezeLLM")),
    pair("qweight", "scales_zeros", Dtypes::Any, PairMeaning::Unknown("LMDeploy")),
    pair(".W_q", ".scale", Dtypes::Any, PairMeaning::Unknown("HQQ")),
    pair(".codes", ".codebooks", Dtypes::Any, PairMeaning::Unknown("AQLM")),
    pair(".q_weight", ".q_scale", Dtypes::Any, PairMeaning::Unknown("exl2")),
    pair(".trellis", ".suh", Dtypes::Any, PairMeaning::Unknown("exl3")),
    pair(".trellis", ".SU", Dtypes::Any, PairMeaning::Unknown("QTIP")),
    pair("weight_packed", "scale_packed", Dtypes::Any, PairMeaning::Unknown("Marlin")),
    pair(".Qidxs", ".SU", Dtypes::Any, PairMeaning::Unknown("QuIP#")),
    pair("qweight", "qzeros", Dtypes::Any, PairMeaning::Unknown("GPTQ or AWQ")),
    pair("qweight", "wscales", Dtypes::Any, PairMeaning::Unknown("SVDQuant")),
    pair(".qvalue", ".scale", Dtypes::Any, PairMeaning::Unknown("AQT")),
    pair(".qvalue", ".scale.0", Dtypes::Any, PairMeaning::Unknown("AQT")),
    pair("/vars/0", "/vars/1", Dtypes::Bytes, PairMeaning::Unknown("Keras")),
    pair("_quantized", "_scale", Dtypes::Any, PairMeaning::Unknown("ONNX Runtime")),
    pair("_Q4", "_scales", Dtypes::Any, PairMeaning::Unknown("ONNX Runtime")),
];

/// The name of the tensor that marks a ComfyUI file with FP8 weights and scales.
const MARKER: &str = "scaled_fp8";
/// The key of the metadata entry in which ComfyUI describes weights. The next constant is the name
/// of the tensor that describes a single layer.
pub(super) const COMFY_METADATA: &str = "_quantization_metadata";
const COMFY_TENSOR: &str = "comfy_quant";

/// The description of the method for codes that are recognized only by the scales in their module.
const UNKNOWN_METHOD: &str = "a method that its names do not determine";
/// Maximum number of words in a scale's name, without the name of its module.
const MAX_SCALE_WORDS: usize = 6;

/// The quantized weights and codes that were recognized by the names of a model's tensors.
#[derive(Default)]
pub(super) struct NamedWeights<'a> {
    /// Weights whose method is known.
    pub(super) weights: Vec<Weight<'a>>,
    /// Codes whose method is not known.
    pub(super) unknown: Vec<UnknownCodes<'a>>,
    /// The names of all methods that were recognized.
    pub(super) methods: BTreeSet<&'static str>,
}

/// Codes for which the rules for converting them to numbers are unknown.
#[derive(Debug, Clone)]
pub(super) struct UnknownCodes<'a> {
    pub(super) name: &'a str,
    /// The name of the sibling tensor by which the codes were recognized.
    pub(super) sibling: String,
    pub(super) method: &'static str,
}

/// Returns whether any tensor of a catalog has a dtype that codes may have. Most models do not have
/// such a tensor, so the tensor names need not be searched.
#[must_use]
pub fn may_hold_codes(catalog: &Catalog) -> bool {
    catalog.tensors().iter().any(|tensor| Dtypes::Any.has(tensor.dtype))
}

/// Returns whether codes may have this dtype.
pub(super) fn is_of_codes(dtype: Dtype) -> bool {
    Dtypes::Any.has(dtype)
}

impl Dtypes {
    fn has(self, dtype: Dtype) -> bool {
        const NOT_CODES: [Dtype; 9] = [
            Dtype::F64,
            Dtype::F32,
            Dtype::F16,
            Dtype::BF16,
            Dtype::BOOL,
            Dtype::I64,
            Dtype::U64,
            Dtype::C64,
            Dtype::C128,
        ];
        let Some(info) = dtype.info() else { return false };
        let is_narrow = || info.name().starts_with("F8") || info.name().starts_with("F4");
        match self {
            Self::Narrow => is_narrow(),
            Self::Bytes => dtype == Dtype::I8 || is_narrow(),
            Self::Any => dtype != Dtype::STR && !NOT_CODES.contains(&dtype),
        }
    }
}

impl UnknownCodes<'_> {
    /// Returns the error for a step or a writer that must know the method.
    pub(super) fn error(&self) -> Error {
        Error::unsupported("the quantization method of this weight is unknown")
            .tensor(self.name)
            .hint(
                "put a config.json with quantization_config or quantization next to the file, or pass \
                 -i codes=numbers to use the codes as they are",
            )
            .found(match &*self.sibling {
                "" => "a configuration of a quantized model".to_owned(),
                sibling => format!("codes with {sibling:?} next to them, as of {}", self.method),
            })
    }
}

/// Finds the model's weights whose tensors are not already parts of other weights.
pub(super) fn named<'a>(
    layers: &'a Layers<'a>,
    taken: &HashSet<TensorId>,
    may_lack_scale: bool,
) -> Result<NamedWeights<'a>> {
    let mut named = NamedWeights::default();
    if !may_hold_codes(layers.catalog()) {
        return Ok(named);
    }
    let mut taken = taken.clone();
    let mut add = |weights: Vec<Weight<'a>>, method: &'static str, taken: &mut HashSet<TensorId>| {
        for weight in weights {
            if taken.contains(&weight.layer.place) {
                continue;
            }
            taken.extend(&weight.layer.parts);
            named.weights.push(weight);
            named.methods.insert(method);
        }
    };
    let is_of_bitsandbytes = |name: &str| {
        name.contains(STATE)
            || name.strip_suffix("SCB").is_some_and(|start| layers.get(&format!("{start}weight")).is_some())
    };
    if layers.names().any(is_of_bitsandbytes) {
        add(bitsandbytes::weights(layers)?, "bitsandbytes", &mut taken);
    }
    let has_scales =
        |start: &&str| layers.get(&format!("{start}_scales")).is_some_and(|scales| scales.dtype == Dtype::U8);
    if layers.ending("_blocks").iter().any(has_scales) {
        add(mxfp4::weights(layers)?, "MXFP4", &mut taken);
    }
    let comfy = ComfyLayers::of(layers.catalog())?;
    let scales = named_scales(layers.names());
    let get = |name: &str| layers.get(name);
    let described: Vec<UnknownCodes<'a>> = described(layers).collect();
    let reported: HashSet<&str> = described.iter().map(|codes| codes.name).collect();
    let mut unknown: Vec<UnknownCodes<'a>> = Vec::new();
    for name in layers.names().filter(|name| !reported.contains(name)) {
        let Some((id, tensor)) = layers.id(name).zip(layers.get(name)) else { continue };
        if taken.contains(&id) || !Dtypes::Any.has(tensor.dtype) || tensor.shape.is_empty() {
            continue;
        }
        let Some((pair, start, sibling)) = pair_of(&get, name, tensor.dtype) else {
            if let Some(sibling) = comfy.describes(layers, name) {
                unknown.push(UnknownCodes { name, sibling, method: "ComfyUI" });
            } else if let Some(sibling) = scales_of(&get, &scales, name, tensor) {
                unknown.push(UnknownCodes { name, sibling, method: UNKNOWN_METHOD });
            }
            continue;
        };
        let codes_of = |method| UnknownCodes { name, sibling: sibling.clone(), method };
        let weight = match pair.by {
            PairMeaning::Scaled => scaled(layers, &comfy, tensor, &sibling)?,
            PairMeaning::Nvfp4 if tensor.dtype == Dtype::U8 => {
                comfy.check(layers, module(name))?;
                Some((float8::nvfp4(layers, name, tensor)?, "NVFP4"))
            }
            PairMeaning::Packed => compressed_tensors::packed_by_names(layers, start, tensor)?
                .map(|weight| (weight, "compressed-tensors")),
            PairMeaning::Parts { weight, zeros } => parts(
                layers,
                start,
                tensor,
                &sibling,
                &format!("{start}{weight}"),
                &format!("{start}{zeros}"),
            )?
            .map(|weight| (weight, "torchao")),
            PairMeaning::Nvfp4 | PairMeaning::Unknown(_) => None,
        };
        match (weight, pair.by) {
            (Some((weight, method)), _) => add(vec![weight], method, &mut taken),
            (None, PairMeaning::Unknown(method)) => unknown.push(codes_of(method)),
            (None, PairMeaning::Parts { .. }) => unknown.push(codes_of("torchao or quanto")),
            (None, _) => unknown.push(codes_of(UNKNOWN_METHOD)),
        }
    }
    let marks = layers.names().filter(|name| module_and_end(name).1 == MARKER);
    let marks: Vec<TensorId> = marks.filter_map(|name| layers.id(name)).collect();
    if named.methods.contains("FP8") || !marks.is_empty() {
        named.weights.extend(without_scales(layers, &taken, may_lack_scale)?);
    }
    if let Some(weight) = named.weights.first_mut() {
        weight.layer.parts.extend(marks);
    }
    add_slash_separated(layers, &mut unknown);
    add_split_across_shards(layers, &mut unknown);
    unknown.retain(|codes| layers.id(codes.name).is_some_and(|id| !taken.contains(&id)));
    unknown.extend(described);
    named.methods.extend(unknown.iter().map(|codes| codes.method));
    named.unknown = unknown;
    Ok(named)
}

/// Returns the tensors that the input's reader marked as codes.
fn described<'a>(layers: &'a Layers<'a>) -> impl Iterator<Item = UnknownCodes<'a>> {
    layers.catalog().tensors().iter().filter_map(|tensor| {
        let by = tensor.attributes.get(CODES_OF)?.as_text().unwrap_or_default();
        Some(UnknownCodes { name: &tensor.name, sibling: by.to_owned(), method: "a graph" })
    })
}

/// Returns all codes that are recognized by their names, regardless of the method.
pub(super) fn codes<'a>(layers: &'a Layers<'a>) -> Vec<UnknownCodes<'a>> {
    let scales = named_scales(layers.names());
    let get = |name: &str| layers.get(name);
    let codes = |name: &'a str| {
        let tensor =
            layers.get(name).filter(|tensor| Dtypes::Any.has(tensor.dtype) && !tensor.shape.is_empty())?;
        let Some((pair, _, sibling)) = pair_of(&get, name, tensor.dtype) else {
            let sibling = scales_of(&get, &scales, name, tensor)?;
            return Some(UnknownCodes { name, sibling, method: UNKNOWN_METHOD });
        };
        let method = if let PairMeaning::Unknown(method) = pair.by { method } else { "a quantization" };
        Some(UnknownCodes { name, sibling, method })
    };
    let mut found: Vec<UnknownCodes<'a>> = described(layers).collect();
    found.extend(layers.names().filter_map(codes));
    add_slash_separated(layers, &mut found);
    add_split_across_shards(layers, &mut found);
    found
}

/// Adds the codes whose names use slashes as separators, or end with TensorFlow's suffix `:0`.
/// Slashes are replaced with dots before the names are compared with the known pairs.
fn add_slash_separated<'a>(layers: &'a Layers<'a>, found: &mut Vec<UnknownCodes<'a>>) {
    if !layers.names().any(|name| name.contains('/') || name.ends_with(":0")) {
        return;
    }
    let dotted: Vec<(String, &'a str)> = layers
        .names()
        .map(|name| (name.strip_suffix(":0").unwrap_or(name).replace('/', "."), name))
        .collect();
    let own: HashMap<&str, &'a str> = dotted.iter().map(|(dotted, name)| (&**dotted, *name)).collect();
    let known: HashSet<&str> = found.iter().map(|codes| codes.name).collect();
    let scales = named_scales(dotted.iter().map(|(dotted, _)| &**dotted));
    let get = |dotted: &str| layers.get(own.get(dotted)?);
    let codes = |(dotted, name): &(String, &'a str)| {
        let tensor = layers.get(name).filter(|tensor| Dtypes::Any.has(tensor.dtype))?;
        if tensor.shape.is_empty() || known.contains(name) {
            return None;
        }
        let (method, sibling) = match pair_of(&get, dotted, tensor.dtype) {
            Some((NamePair { by: PairMeaning::Unknown(method), .. }, _, sibling)) => (*method, sibling),
            Some((.., sibling)) => (UNKNOWN_METHOD, sibling),
            None => (UNKNOWN_METHOD, scales_of(&get, &scales, dotted, tensor)?),
        };
        Some(UnknownCodes { name, sibling: (*own.get(&*sibling)?).to_owned(), method })
    };
    let more: Vec<UnknownCodes<'a>> = dotted.iter().filter_map(codes).collect();
    found.extend(more);
}

/// Adds the codes in a shard whose scales are in a different shard.
fn add_split_across_shards<'a>(layers: &'a Layers<'a>, found: &mut Vec<UnknownCodes<'a>>) {
    let known: HashSet<&str> = found.iter().map(|codes| codes.name).collect();
    let codes = |tensor: &'a Tensor| {
        let get = |name: &str| layers.is_elsewhere(name).then_some(tensor);
        let is_one = Dtypes::Any.has(tensor.dtype) && !tensor.shape.is_empty();
        let is_new = is_one && !known.contains(&*tensor.name);
        let (.., sibling) = pair_of(&get, &tensor.name, tensor.dtype).filter(|_| is_new)?;
        Some(UnknownCodes {
            name: &tensor.name,
            sibling,
            method: "a method whose scales are in another shard",
        })
    };
    let more: Vec<UnknownCodes<'a>> = layers.catalog().tensors().iter().filter_map(codes).collect();
    found.extend(more);
}

/// Returns the tensors that may contain codes: floats of at most 8 bits, and matrices of integers.
/// These tensors count as codes if the configuration describes the model as quantized, but no
/// tensor name identifies the codes.
pub(super) fn possible_codes<'a>(layers: &'a Layers<'a>) -> Vec<UnknownCodes<'a>> {
    let is_one = |tensor: &&Tensor| {
        let is_matrix = (2..=3).contains(&tensor.shape.len()) && Dtypes::Any.has(tensor.dtype);
        Dtypes::Narrow.has(tensor.dtype) && !tensor.shape.is_empty() || is_matrix
    };
    let tensors = layers.catalog().tensors().iter().filter(is_one);
    let codes = |tensor: &'a Tensor| UnknownCodes {
        name: &tensor.name,
        sibling: String::new(),
        method: UNKNOWN_METHOD,
    };
    tensors.map(codes).collect()
}

/// Finds the pair of suffixes that matches a tensor. Returns the pair, the common prefix of both
/// names, and the name of the sibling tensor.
fn pair_of<'t, 'a>(
    get: &dyn Fn(&str) -> Option<&'a Tensor>,
    name: &'t str,
    dtype: Dtype,
) -> Option<(&'static NamePair, &'t str, String)> {
    PAIRS.iter().filter(|pair| pair.dtypes.has(dtype)).find_map(|pair| {
        // If the name has no prefix, the tensor may be the weight itself.
        let start = match name.strip_suffix(pair.codes) {
            Some(start) => start,
            None if Some(name) == pair.codes.strip_prefix('.') => "",
            None => return None,
        };
        let sibling = match start {
            "" => pair.sibling.trim_start_matches('.').to_owned(),
            start => format!("{start}{}", pair.sibling),
        };
        let is_there = sibling != name && get(&sibling).is_some();
        is_there.then_some((pair, start, sibling))
    })
}

/// Words that the names of a weight's scales may contain, in addition to the words of the weight's
/// own name. One of the first three words is required. Names with other words, such as
/// `logit_scale` and `input_scale`, are not names of a weight's scales.
const OF_SCALES: [&str; 21] = [
    "scale",
    "scales",
    "scaling",
    "weight",
    "weights",
    "w",
    "q",
    "qweight",
    "quant",
    "quantized",
    "quantizer",
    "dequant",
    "deq",
    "inv",
    "block",
    "channel",
    "group",
    "tensor",
    "factor",
    "fp8",
    "int8",
];

/// Returns a map from each module to those of its tensors whose names may be names of scales.
fn named_scales<'n>(names: impl Iterator<Item = &'n str>) -> HashMap<&'n str, Vec<&'n str>> {
    let mut scales: HashMap<&str, Vec<&str>> = HashMap::new();
    for name in names.filter(|name| name.contains("scal")) {
        let modules = name.match_indices('.').map(|(dot, _)| &name[..=dot]).chain([""]);
        for module in modules.filter(|module| scale_words(&name[module.len()..]).is_some()) {
            scales.entry(module).or_default().push(name);
        }
    }
    scales
}

/// Returns the words of a name, if one of the words stands for a scale and there are at most
/// `MAX_SCALE_WORDS` words.
fn scale_words(name: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = name.split(['.', '_']).filter(|word| !word.is_empty()).collect();
    let is_scale = words.iter().any(|word| OF_SCALES[..3].contains(word));
    (is_scale && words.len() <= MAX_SCALE_WORDS).then_some(words)
}

/// Returns the name of a scale for codes whose names do not match a known pair. The codes must be a
/// matrix of bytes, and the same module must contain floats with names of a weight's scales.
fn scales_of<'a>(
    get: &dyn Fn(&str) -> Option<&'a Tensor>,
    scales: &HashMap<&str, Vec<&str>>,
    name: &str,
    codes: &Tensor,
) -> Option<String> {
    let (module, own) = module_and_end(name);
    if !Dtypes::Bytes.has(codes.dtype) || codes.shape.len() < 2 {
        return None;
    }
    let is_scale = |scale: &&&str| {
        let words = scale_words(&scale[module.len()..]);
        let is_of = |words: Vec<&str>| {
            words.iter().all(|word| OF_SCALES.contains(word) || own.split('_').any(|own| own == *word))
        };
        **scale != name
            && words.is_some_and(is_of)
            && get(scale).is_some_and(|scale| scale.dtype != codes.dtype)
    };
    scales.get(module)?.iter().find(is_scale).map(|name| (*name).to_owned())
}

/// Splits a tensor's name into the module with the final separator, and the rest.
fn module_and_end(name: &str) -> (&str, &str) {
    let start = name.rfind('.').map_or(0, |dot| dot + 1);
    name.split_at(start)
}

fn module(name: &str) -> &str {
    module_and_end(name).0
}

/// Returns a weight that consists of codes and a scale: 8-bit floats with any name, or 8-bit
/// integers named `weight`.
fn scaled<'a>(
    layers: &'a Layers<'a>,
    comfy: &ComfyLayers,
    tensor: &Tensor,
    sibling: &str,
) -> Result<Option<(Weight<'a>, &'static str)>> {
    comfy.check(layers, module(&tensor.name))?;
    let is_float = float8::DTYPES.contains(&tensor.dtype);
    let is_integer = tensor.dtype == Dtype::I8 && module_and_end(&tensor.name).1 == "weight";
    if !is_float && !is_integer {
        return Ok(None);
    }
    let mut layer = layers.layer(tensor.name.clone(), &tensor.name)?;
    let scale = layer.needed(sibling)?;
    // In a tensor named `kernel`, the rows are the inputs, and it is not known to which dimension
    // the scales apply.
    if module_and_end(&tensor.name).1 == "kernel" && element_count(&scale.shape)? != 1 {
        return Ok(None);
    }
    float8::check_other_parts(layers, &tensor.name)?;
    if is_float {
        return Ok(Some((float8::floats(layer, tensor, Some(scale), None)?, "FP8")));
    }
    if !FLOATS.contains(&scale.dtype) {
        return Ok(None);
    }
    let start = module(&tensor.name).trim_end_matches('.');
    let weight = compressed_tensors::bytes(layer, start, tensor, scale, None)?;
    Ok(Some((weight, "int8")))
}

/// The dtypes of scales with which codes are multiplied.
const FLOATS: [Dtype; 3] = [Dtype::F32, Dtype::F16, Dtype::BF16];

/// Returns a weight of a torchao or quanto class whose tensors are saved separately: `(codes -
/// zeros) * scale`. Weights with the tensor names of these torchao classes never contain 4-bit
/// codes that share a byte.
fn parts<'a>(
    layers: &'a Layers<'a>,
    start: &str,
    tensor: &Tensor,
    sibling: &str,
    weight: &str,
    zeros: &str,
) -> Result<Option<Weight<'a>>> {
    let is_class_known = match layers.catalog().metadata().get(weight).and_then(|value| value.as_text()) {
        Some(text) => ["\"Int8Tensor\"", "\"Float8Tensor\"", "\"IntxUnpackedToInt8Tensor\""]
            .iter()
            .any(|class| text.contains(class)),
        None => true,
    };
    let is_float = float8::DTYPES.contains(&tensor.dtype);
    let [rows, columns] = *tensor.shape else { return Ok(None) };
    let Some(scale) = layers.get(sibling) else { return Ok(None) };
    // If there are zero points, scales for rows cannot be distinguished from scales for groups
    // along the other dimension.
    if layers.get(zeros).is_some() && zeros.ends_with("_shift") {
        return Ok(None);
    }
    let is_square = *scale.shape == [rows, rows] && rows > 1;
    if !is_class_known
        || is_square
        || !(is_float || tensor.dtype == Dtype::I8)
        || !FLOATS.contains(&scale.dtype)
    {
        return Ok(None);
    }
    let mut layer = layers.layer(weight.to_owned(), &tensor.name)?;
    layer.needed(sibling)?;
    for end in ["act_quant_scale", "act_pre_scale", "act_scale", "act_zero_point"] {
        if layers.get(&format!("{}{end}", &sibling[..sibling.len() - "scale".len()])).is_some() {
            return Err(Error::unsupported("a weight whose inputs are also scaled").tensor(start));
        }
    }
    let Ok(grid) = ScaleGrid::of(&tensor.shape, scale, None) else { return Ok(None) };
    let formula = match layer.part(zeros) {
        None => Formula::Scale,
        Some(zeros) if element_count(&zeros.shape)? != element_count(&scale.shape)? => {
            return Err(shaped(zeros, format!("{:?}, like the scales", scale.shape)));
        }
        Some(zeros) => {
            const ZEROS: [Dtype; 5] = [Dtype::I8, Dtype::F8_E4M3, Dtype::F32, Dtype::F16, Dtype::BF16];
            Formula::SubtractEach(layer.extent_of(zeros, &ZEROS)?)
        }
    };
    let codes =
        CodePacking::of_bytes(tensor.dtype).ok_or_else(|| Error::unsupported("a table of this dtype"))?;
    let method = Scaled {
        row_bytes: row_bytes(tensor, rows, columns, &codes)?,
        codes,
        at: layer.extent(tensor)?,
        columns,
        grid,
        scales: Scales::of(&layer, scale)?,
        formula,
        groups_of: None,
    };
    Ok(Some(Weight { layer, shape: vec![rows, columns], is_turned: false, method: Box::new(method) }))
}

/// Returns the FP8 weights without a scale in a file in which other FP8 weights have a scale.
fn without_scales<'a>(
    layers: &'a Layers<'a>,
    taken: &HashSet<TensorId>,
    may_lack_scale: bool,
) -> Result<Vec<Weight<'a>>> {
    let lacks = |name: &&str| {
        let tensor = layers.get(name).filter(|tensor| float8::DTYPES.contains(&tensor.dtype));
        tensor.is_some()
            && module_and_end(name).1 == "weight"
            && layers.id(name).is_some_and(|id| !taken.contains(&id))
    };
    let weight = |name: &'a str| {
        let layer: Layer<'a> = layers.layer(name.to_owned(), name)?;
        match layers.get(name) {
            Some(tensor) if may_lack_scale => float8::floats(layer, tensor, None, None),
            _ => Err(lacks_scale(layers, name)),
        }
    };
    layers.names().filter(lacks).map(weight).collect()
}

/// The descriptions of layers that ComfyUI stores in a file.
struct ComfyLayers {
    /// The description of each layer, from the metadata entry.
    layers: Value,
}

impl ComfyLayers {
    fn of(catalog: &Catalog) -> Result<Self> {
        let text = catalog.metadata().get(COMFY_METADATA).and_then(|value| value.as_text());
        let declared: Option<Value> = text.map(serde_json::from_str).transpose().map_err(|error| {
            Error::malformed(format!("the metadata {COMFY_METADATA} is not JSON: {error}"))
        })?;
        Ok(Self { layers: declared.and_then(|declared| declared.get("layers").cloned()).unwrap_or_default() })
    }

    /// Returns the name of the tensor or metadata entry that describes a weight, if the file
    /// contains one.
    fn describes(&self, layers: &Layers<'_>, name: &str) -> Option<String> {
        let (module, end) = module_and_end(name);
        let own = format!("{module}{COMFY_TENSOR}");
        let is_said = || self.layers.get(module.trim_end_matches('.')).is_some();
        match end == "weight" {
            true if layers.get(&own).is_some() => Some(own),
            true if is_said() => Some(COMFY_METADATA.to_owned()),
            _ => None,
        }
    }

    /// Checks that the weights of a module are stored as codes in row-major order, which are
    /// multiplied by scales.
    fn check<'a>(&self, layers: &'a Layers<'a>, module: &str) -> Result<()> {
        const KNOWN: [&str; 3] = ["float8_e4m3fn", "float8_e5m2", "int8_tensorwise"];
        /// Keys in a description that do not affect the values of the weights.
        const IGNORED_KEYS: [&str; 2] = ["format", "full_precision_matrix_mult"];
        let own = layers.get(&format!("{module}{COMFY_TENSOR}"));
        let own: Option<Value> =
            match own {
                Some(tensor) => {
                    let layer = layers.layer(tensor.name.clone(), &tensor.name)?;
                    let bytes = layer.bytes(tensor, 64 << 10)?;
                    let declared = serde_json::from_slice(&bytes);
                    Some(declared.map_err(|error| {
                        Error::malformed(format!("not JSON: {error}")).tensor(&tensor.name)
                    })?)
                }
                None => self.layers.get(module.trim_end_matches('.')).cloned(),
            };
        let Some(declared) = own else { return Ok(()) };
        let format = declared.get("format").and_then(Value::as_str).unwrap_or("no format");
        let keys = declared.as_object().into_iter().flatten().map(|(key, _)| key);
        let is_harmless = keys.clone().all(|key| IGNORED_KEYS.contains(&&**key));
        if KNOWN.contains(&format) && is_harmless {
            return Ok(());
        }
        Err(Error::unsupported("dequantize does not support this ComfyUI format")
            .tensor(module.trim_end_matches('.'))
            .expected(KNOWN.join(", "))
            .found(declared))
    }
}
