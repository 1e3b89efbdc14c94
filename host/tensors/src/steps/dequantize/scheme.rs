//! The scheme with which a model's weights were quantized, according to the model's configuration.

use crate::steps::model_config::{ModelConfig, QuantizationSettings};
use crate::steps::regexes;
use crate::steps::spec::Field;
use regex::Regex;
use serde_json::{Map, Value};
use tensorferry_sdk::{Error, Result};

/// The scheme with which a model's weights were quantized.
#[derive(Debug, Clone)]
pub(super) enum Scheme {
    /// bitsandbytes: 4-bit codes with a scale per block, where blocks continue across rows, or
    /// 8-bit codes with a scale per row.
    Bitsandbytes,
    Gptq(Packings),
    /// AWQ, version `gemm`.
    Awq(Packings),
    /// compressed-tensors, with its configuration.
    CompressedTensors(Value),
    /// 8-bit floats with scales per block, row, or tensor.
    Fp8 {
        /// The number of rows and columns of a block.
        block: Option<[u64; 2]>,
    },
    /// 4-bit floats, as in gpt-oss. Each group of 32 floats shares a scale that is a power of two.
    Mxfp4,
    /// NVIDIA's `ModelOpt`: `FP8` or `NVFP4`.
    Modelopt,
    /// MLX, with its configuration.
    Mlx(Value),
    /// An unsupported method with this name.
    Uncovered(String),
}

/// The packing of integers of a few bits in 32-bit words.
#[derive(Debug, Clone, Copy)]
pub(super) struct WordPacking {
    /// Number of bits per integer.
    pub(super) bits: u32,
    /// Number of integers that share a scale; `None` if all integers in a column share one scale.
    pub(super) group: Option<u64>,
    /// The number that is added to stored zero points.
    pub(super) zero_offset: u32,
}

/// Names of unsupported methods in the configuration's `quant_method`. The tensors of such models
/// are copied unchanged.
const UNCOVERED: [&str; 15] = [
    "hqq", "aqlm", "vptq", "spqr", "eetq", "quip", "quip#", "quanto", "torchao", "bitnet", "exl2", "exl3",
    "higgs", "fp_quant", "sinq",
];

/// The method that a configuration declares with the key `quantization_bit`. With 4 bits, a byte
/// contains two codes, but the tensors have the same names as 8-bit codes.
pub(super) const CHATGLM: &str = "ChatGLM";

impl Scheme {
    /// Returns the scheme, or `None` if the weights were not quantized.
    pub(super) fn of(config: &ModelConfig) -> Result<Option<Self>> {
        let Some(declared) = config.quantization() else {
            let bits = config.json().and_then(|config| config.get("quantization_bit")?.as_u64());
            return Ok((bits == Some(4)).then(|| Self::Uncovered(CHATGLM.to_owned())));
        };
        declared.scheme().map_err(|error| error.file(declared.file))
    }

    /// Returns the common name of the method.
    #[must_use]
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Bitsandbytes => "bitsandbytes",
            Self::Gptq(_) => "GPTQ",
            Self::Awq(_) => "AWQ",
            Self::CompressedTensors(_) => "compressed-tensors",
            Self::Fp8 { .. } => "FP8",
            Self::Mxfp4 => "MXFP4",
            Self::Modelopt => "ModelOpt",
            Self::Mlx(_) => "MLX",
            Self::Uncovered(name) => name,
        }
    }

    /// Returns a description of the general settings, such as the number of bits and the group
    /// size.
    #[must_use]
    pub(super) fn variant(&self) -> Option<String> {
        let of_bits = |bits: u64, group: Option<u64>| match group {
            Some(group) => format!("{bits} bits in groups of {group}"),
            None => format!("{bits} bits"),
        };
        match self {
            Self::Gptq(Packings { all, .. }) | Self::Awq(Packings { all, .. }) => {
                Some(of_bits(all.bits.into(), all.group))
            }
            Self::CompressedTensors(facts) => text(facts, "format").map(str::to_owned),
            Self::Fp8 { block } => block.map(|[rows, columns]| format!("blocks of {rows} x {columns}")),
            Self::Mlx(facts) => {
                let number = |key: &str| facts.get(key).and_then(Value::as_u64);
                let bits = of_bits(number("bits")?, number("group_size"));
                Some(text(facts, "mode").map_or(bits.clone(), |mode| format!("{mode}, {bits}")))
            }
            Self::Bitsandbytes | Self::Mxfp4 | Self::Modelopt | Self::Uncovered(_) => None,
        }
    }
}

/// Keys that identify the method of a configuration without `quant_method`. If several entries
/// match, the first entry is used. Older releases of the libraries wrote such configurations, and
/// transformers also recognizes some of them.
const BY_KEYS: [(&[&str], &str); 6] = [
    (&["load_in_4bit", "load_in_8bit", "bnb_4bit_quant_type", "llm_int8_threshold"], "bitsandbytes"),
    (&["config_groups"], "compressed-tensors"),
    (&["quant_algo", "kv_cache_quant_algo", "producer"], "modelopt"),
    (&["w_bit", "q_group_size", "zero_point"], "awq"),
    (&["desc_act", "damp_percent", "checkpoint_format", "true_sequential"], "gptq"),
    (&["weight_block_size", "activation_scheme", "fmt"], "fp8"),
];
/// Files that describe quantization without naming the method.
const BY_FILES: [(&str, &str); 3] =
    [("quantize_config.json", "gptq"), ("quant_config.json", "awq"), ("hf_quant_config.json", "modelopt")];
/// The keys of MLX's settings, which do not name a method.
const OF_MLX: [&str; 3] = ["group_size", "bits", "mode"];

impl QuantizationSettings<'_> {
    /// Returns the scheme, or `None` if the configuration does not identify a scheme. In that case,
    /// the scheme must be determined from tensor names.
    fn scheme(self) -> Result<Option<Scheme>> {
        let facts = self.facts;
        let has = |keys: &[&str]| keys.iter().any(|key| facts.get(*key).is_some());
        let method = text(facts, "quant_method")
            .or_else(|| BY_FILES.iter().find(|(file, _)| *file == self.file).map(|(_, method)| *method))
            .or_else(|| BY_KEYS.iter().find(|(keys, _)| has(keys)).map(|(_, method)| *method));
        let Some(method) = method else {
            return Ok(has(&OF_MLX).then(|| Scheme::Mlx(facts.clone())));
        };
        match method {
            "bitsandbytes" | "bitsandbytes_4bit" | "bitsandbytes_8bit" => Ok(Scheme::Bitsandbytes),
            "gptq" => gptq(facts),
            "awq" => awq(facts),
            "auto-round" | "intel/auto-round" => auto_round(facts),
            "compressed-tensors" => Ok(Scheme::CompressedTensors(facts.clone())),
            "fp8" | "fbgemm_fp8" => Ok(Scheme::Fp8 { block: block(facts)? }),
            "mxfp4" => Ok(Scheme::Mxfp4),
            "modelopt" | "modelopt_fp4" | "modelopt_fp8" => Ok(Scheme::Modelopt),
            other if UNCOVERED.contains(&other) => Ok(Scheme::Uncovered(other.to_owned())),
            other => Err(Error::unsupported("dequantize does not support this quantization method")
                .expected(
                    "bitsandbytes, gptq, awq, auto-round, compressed-tensors, fp8, fbgemm_fp8, mxfp4, modelopt, or MLX's own",
                )
                .found(format!("quant_method {other:?}"))),
        }
        .map(Some)
    }
}

/// How codes are packed into words: the default for all layers, and overrides for some layers.
#[derive(Debug, Clone)]
pub(super) struct Packings {
    pub(super) all: WordPacking,
    /// The overrides. If several overrides match a layer, the first override is used.
    overrides: Vec<Override>,
}

#[derive(Debug, Clone)]
struct Override {
    layers: LayerNames,
    /// The packing for these layers; `None` if the layers are not quantized.
    packing: Option<WordPacking>,
}

/// The layers to which an override applies.
#[derive(Debug, Clone)]
enum LayerNames {
    Named(String),
    Matching(Regex),
}

impl Packings {
    fn same(all: WordPacking) -> Self {
        Self { all, overrides: Vec::new() }
    }

    /// Returns the packing of codes in the words of a layer.
    pub(super) fn of(&self, layer: &str) -> Result<WordPacking> {
        let is_of = |of: &&Override| match &of.layers {
            LayerNames::Named(name) => name == layer,
            LayerNames::Matching(regex) => regex.is_match(layer),
        };
        match self.overrides.iter().find(is_of) {
            None => Ok(self.all),
            Some(Override { packing: Some(packing), .. }) => Ok(*packing),
            Some(_) => Err(Error::malformed("the configuration says that this layer is not quantized")
                .tensor(layer)
                .found("qweight")),
        }
    }
}

/// Compiles a Python regular expression from a key of a configuration.
fn pattern(key: &str, text: &str) -> Result<LayerNames> {
    let regex = regexes::parse(&Field::new(text.to_owned()));
    regex.map(LayerNames::Matching).map_err(|error| {
        Error::unsupported(format!("unsupported pattern of {key}: {}", error.message()))
            .found(format!("{text:?}"))
    })
}

/// Applies an override to the settings for all layers.
fn overridden(all: WordPacking, facts: &Value, known: &[u32]) -> Result<WordPacking> {
    let has = |key: &str| facts.get(key).is_some_and(|value| !value.is_null());
    Ok(WordPacking {
        bits: if has("bits") { bits(facts, &["bits"], known)? } else { all.bits },
        group: if has("group_size") { group(facts, &["group_size"])? } else { all.group },
        zero_offset: all.zero_offset,
    })
}

fn object<'a>(facts: &'a Value, key: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    facts.get(key).and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// Parses the setting `dynamic` of `GPTQModel`. Each key is a pattern that matches from the start
/// of a layer's name. The prefix `-:` excludes the matching layers from quantization.
fn dynamic(all: WordPacking, facts: &Value) -> Result<Vec<Override>> {
    let of = |(key, own): (&String, &Value)| {
        let (is_excluded, text) = match key.strip_prefix("-:") {
            Some(text) => (true, text),
            None => (false, key.strip_prefix("+:").unwrap_or(key)),
        };
        let layers = pattern("dynamic", &format!("^(?:{text})"))?;
        let packing = if is_excluded { None } else { Some(overridden(all, own, &GPTQ_BITS)?) };
        Ok(Override { layers, packing })
    };
    object(facts, "dynamic").map(of).collect()
}

/// Parses the setting `extra_config` of `AutoRound`. Keys are names of layers, or patterns, which
/// may match anywhere in a name. Layers with 16 bits or more are not quantized.
fn extra_config(all: WordPacking, facts: &Value, known: &[u32]) -> Result<Vec<Override>> {
    let of = |(key, own): (&String, &Value)| {
        let is_wide = own.get("bits").and_then(Value::as_u64).is_some_and(|bits| bits >= 16);
        let is_pattern = key.contains(|c: char| "*+?[](){}|^$\\".contains(c));
        let layers = if is_pattern { pattern("extra_config", key)? } else { LayerNames::Named(key.clone()) };
        let packing = if is_wide { None } else { Some(overridden(all, own, known)?) };
        Ok(Override { layers, packing })
    };
    let mut overrides: Vec<Override> = object(facts, "extra_config").map(of).collect::<Result<_>>()?;
    overrides.sort_by_key(|of| matches!(of.layers, LayerNames::Matching(_)));
    Ok(overrides)
}

/// Parses a configuration of `AutoRound`. The words are packed as in GPTQ or AWQ, depending on
/// `packing_format`.
fn auto_round(facts: &Value) -> Result<Scheme> {
    if let Some(other) = text(facts, "data_type").filter(|kind| *kind != "int") {
        return Err(packs_otherwise("AutoRound", "data_type", other));
    }
    let format =
        ["packing_format", "backend"].iter().find_map(|key| text(facts, key)).unwrap_or("auto_round");
    let (is_awq, zero_offset) = match format {
        "auto_round:auto_gptq" | "auto_gptq" => (false, 1),
        "auto_round" | "auto_round:gptqmodel" => (false, 0),
        "auto_round:auto_awq" | "auto_awq" => (true, 0),
        other => return Err(packs_otherwise("AutoRound", "packing_format", other)),
    };
    let known = if is_awq { &[4][..] } else { &GPTQ_BITS };
    let all = WordPacking {
        bits: bits(facts, &["bits"], known)?,
        group: group(facts, &["group_size"])?,
        zero_offset,
    };
    let packings = Packings { all, overrides: extra_config(all, facts, known)? };
    Ok(if is_awq { Scheme::Awq(packings) } else { Scheme::Gptq(packings) })
}

/// Returns the value of a key, if the value is a string.
pub(super) fn text<'a>(facts: &'a Value, key: &str) -> Option<&'a str> {
    facts.get(key)?.as_str()
}

fn gptq(facts: &Value) -> Result<Scheme> {
    let zero_offset = match text(facts, "checkpoint_format") {
        None | Some("gptq") => 1,
        Some("gptq_v2") => 0,
        Some(other) => return Err(packs_otherwise("GPTQ", "checkpoint_format", other)),
    };
    if let Some(other) = text(facts, "pack_dtype").filter(|name| !matches!(*name, "int32" | "torch.int32")) {
        return Err(packs_otherwise("GPTQ", "pack_dtype", other));
    }
    let bits = bits(facts, &["bits"], &GPTQ_BITS)?;
    let all = WordPacking { bits, group: group(facts, &["group_size"])?, zero_offset };
    let mut overrides = dynamic(all, facts)?;
    overrides.extend(extra_config(all, facts, &GPTQ_BITS)?);
    Ok(Scheme::Gptq(Packings { all, overrides }))
}

fn awq(facts: &Value) -> Result<Scheme> {
    let version = text(facts, "version").unwrap_or("gemm");
    if !version.eq_ignore_ascii_case("gemm") {
        return Err(packs_otherwise("AWQ", "version", version));
    }
    let bits = bits(facts, &["bits", "w_bit"], &[4])?;
    let all = WordPacking { bits, group: group(facts, &["group_size", "q_group_size"])?, zero_offset: 0 };
    Ok(Scheme::Awq(Packings::same(all)))
}

/// The numbers of bits that GPTQ codes may have.
const GPTQ_BITS: [u32; 4] = [2, 3, 4, 8];

fn packs_otherwise(method: &str, key: &str, found: &str) -> Error {
    Error::unsupported(format!("a variant of {method} with an unsupported packing"))
        .found(format!("{key} {found:?}"))
}

fn first<'a>(facts: &'a Value, keys: &[&str]) -> Option<&'a Value> {
    keys.iter().find_map(|key| facts.get(*key)).filter(|value| !value.is_null())
}

/// Returns the number of bits per value, which must be in `known`.
fn bits(facts: &Value, keys: &[&str], known: &[u32]) -> Result<u32> {
    let declared = first(facts, keys);
    let bits = declared.and_then(Value::as_u64).and_then(|bits| u32::try_from(bits).ok());
    bits.filter(|bits| known.contains(bits)).ok_or_else(|| {
        Error::malformed(format!("{} is not a supported number of bits", keys[0]))
            .expected(format!("one of {known:?}"))
            .found(declared.map_or_else(|| "nothing".to_owned(), Value::to_string))
    })
}

fn group(facts: &Value, keys: &[&str]) -> Result<Option<u64>> {
    match first(facts, keys).map(|declared| (declared, declared.as_i64())) {
        None | Some((_, Some(-1))) => Ok(None),
        Some((_, Some(group))) if group > 0 => Ok(Some(group.unsigned_abs())),
        Some((declared, _)) => Err(Error::malformed(format!("{} is not a group size", keys[0]))
            .expected("a number above 0, or -1")
            .found(declared)),
    }
}

fn block(facts: &Value) -> Result<Option<[u64; 2]>> {
    let Some(declared) = first(facts, &["weight_block_size"]) else { return Ok(None) };
    let dims: Option<Vec<u64>> = declared
        .as_array()
        .map(|dims| dims.iter().filter_map(Value::as_u64).filter(|dim| *dim > 0).collect());
    match dims.as_deref() {
        Some(&[rows, columns]) => Ok(Some([rows, columns])),
        _ => Err(Error::malformed("weight_block_size is not a block")
            .expected("two numbers above 0")
            .found(declared)),
    }
}
