//! The scheme that a model's weights were quantised with, as its configuration or its tensors' names say.

use crate::steps::model_config::{ModelConfig, Quantization};
use memchr::memmem::Finder;
use serde_json::Value;
use std::collections::HashSet;
use tensorferry_sdk::{Catalog, Dtype, Error, Result, Tensor};

/// How a model's weights were quantised.
#[derive(Debug, Clone)]
pub(super) enum Scheme {
    /// bitsandbytes: 4 bits in blocks of the whole tensor, 8 bits in rows.
    Bitsandbytes,
    /// GPTQ.
    Gptq(Packing),
    /// AWQ, version `gemm`.
    Awq(Packing),
    /// compressed-tensors, with its configuration.
    CompressedTensors(Value),
    /// Floats of 8 bits with scales: of blocks, rows, or whole tensors.
    Fp8 {
        /// Rows and columns of a block.
        block: Option<[u64; 2]>,
    },
    /// Floats of 4 bits with a power of two for 32 of them, as gpt-oss has them.
    Mxfp4,
    /// `ModelOpt` of NVIDIA: `FP8` or `NVFP4`.
    Modelopt,
    /// MLX, with its configuration.
    Mlx(Value),
    /// One that is not dequantised here, by its name.
    Uncovered(String),
}

/// Integers of a few bits in words of 32.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packing {
    /// Bits of each.
    pub(super) bits: u32,
    /// How many share a scale; `None`: all of a column.
    pub(super) group: Option<u64>,
    /// What is added to stored zero points.
    pub(super) zero_offset: u32,
}

/// Methods whose files are carried as they are. Names as `quant_method` has them.
const UNCOVERED: [&str; 15] = [
    "hqq", "aqlm", "vptq", "spqr", "eetq", "quip", "quip#", "quanto", "torchao", "bitnet", "exl2", "exl3",
    "higgs", "fp_quant", "sinq",
];

impl Scheme {
    /// The scheme, if the weights were quantised with one.
    ///
    /// # Errors
    /// Unsupported, for one that is not known, or a variant that packs otherwise; malformed, for numbers that make no sense.
    pub(super) fn of(config: &ModelConfig, catalog: &Catalog) -> Result<Option<Self>> {
        match config.quantization() {
            Some(said) => said.scheme().map(Some).map_err(|error| error.file(said.file)),
            None => Ok(Self::by_names(catalog)),
        }
    }

    /// What names and dtypes alone tell.
    fn by_names(catalog: &Catalog) -> Option<Self> {
        let names = || catalog.tensors().iter().map(|tensor| tensor.name.as_str());
        let state = Finder::new(".quant_state.bitsandbytes__");
        if names().any(|name| name.ends_with(".SCB") || state.find(name.as_bytes()).is_some()) {
            return Some(Self::Bitsandbytes);
        }
        if names().any(|name| name.ends_with("_scale_inv")) {
            return Some(Self::Fp8 { block: None });
        }
        let with_blocks: HashSet<&str> = names().filter_map(|name| name.strip_suffix("_blocks")).collect();
        let is_scales = |tensor: &Tensor| {
            let start = tensor.name.strip_suffix("_scales");
            tensor.dtype == Dtype::U8 && start.is_some_and(|start| with_blocks.contains(start))
        };
        catalog.tensors().iter().any(is_scales).then_some(Self::Mxfp4)
    }

    /// What people call it.
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

    /// What its configuration says of all weights: bits, groups, a variant.
    #[must_use]
    pub(super) fn variant(&self) -> Option<String> {
        let of_bits = |bits: u64, group: Option<u64>| match group {
            Some(group) => format!("{bits} bits in groups of {group}"),
            None => format!("{bits} bits"),
        };
        match self {
            Self::Gptq(packing) | Self::Awq(packing) => Some(of_bits(packing.bits.into(), packing.group)),
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

impl Quantization<'_> {
    fn scheme(self) -> Result<Scheme> {
        let facts = self.facts;
        if self.is_of_mlx {
            return Ok(Scheme::Mlx(facts.clone()));
        }
        let method = match (text(facts, "quant_method"), self.file) {
            (Some(method), _) => method,
            (None, "quantize_config.json") => "gptq",
            (None, "quant_config.json") => "awq",
            (None, _) => "modelopt",
        };
        match method {
            "bitsandbytes" | "bitsandbytes_4bit" | "bitsandbytes_8bit" => Ok(Scheme::Bitsandbytes),
            "gptq" => gptq(facts),
            "awq" => awq(facts),
            "compressed-tensors" => Ok(Scheme::CompressedTensors(facts.clone())),
            "fp8" | "fbgemm_fp8" => Ok(Scheme::Fp8 { block: block(facts)? }),
            "mxfp4" => Ok(Scheme::Mxfp4),
            "modelopt" => Ok(Scheme::Modelopt),
            other if UNCOVERED.contains(&other) => Ok(Scheme::Uncovered(other.to_owned())),
            other => Err(Error::unsupported("weights of this quantisation method are not dequantised")
                .expected(
                    "bitsandbytes, gptq, awq, compressed-tensors, fp8, fbgemm_fp8, mxfp4, modelopt, or MLX's own",
                )
                .found(format!("quant_method {other:?}"))),
        }
    }
}

/// The text of a key.
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
    let bits = bits(facts, &["bits"], &[2, 3, 4, 8])?;
    Ok(Scheme::Gptq(Packing { bits, group: group(facts, &["group_size"])?, zero_offset }))
}

fn awq(facts: &Value) -> Result<Scheme> {
    let version = text(facts, "version").unwrap_or("gemm");
    if !version.eq_ignore_ascii_case("gemm") {
        return Err(packs_otherwise("AWQ", "version", version));
    }
    let bits = bits(facts, &["bits", "w_bit"], &[4])?;
    Ok(Scheme::Awq(Packing { bits, group: group(facts, &["group_size", "q_group_size"])?, zero_offset: 0 }))
}

fn packs_otherwise(method: &str, key: &str, found: &str) -> Error {
    Error::unsupported(format!("a variant of {method} that packs its weights otherwise"))
        .found(format!("{key} {found:?}"))
}

fn first<'a>(facts: &'a Value, keys: &[&str]) -> Option<&'a Value> {
    keys.iter().find_map(|key| facts.get(*key)).filter(|value| !value.is_null())
}

/// How many bits a value has: one of these.
fn bits(facts: &Value, keys: &[&str], known: &[u32]) -> Result<u32> {
    let said = first(facts, keys);
    let bits = said.and_then(Value::as_u64).and_then(|bits| u32::try_from(bits).ok());
    bits.filter(|bits| known.contains(bits)).ok_or_else(|| {
        Error::malformed(format!("{} is no number of bits that weights are packed in", keys[0]))
            .expected(format!("one of {known:?}"))
            .found(said.map_or_else(|| "nothing".to_owned(), Value::to_string))
    })
}

fn group(facts: &Value, keys: &[&str]) -> Result<Option<u64>> {
    match first(facts, keys).map(|said| (said, said.as_i64())) {
        None | Some((_, Some(-1))) => Ok(None),
        Some((_, Some(group))) if group > 0 => Ok(Some(group.unsigned_abs())),
        Some((said, _)) => Err(Error::malformed(format!("{} is no size of a group", keys[0]))
            .expected("a number above 0, or -1")
            .found(said)),
    }
}

fn block(facts: &Value) -> Result<Option<[u64; 2]>> {
    let Some(said) = first(facts, &["weight_block_size"]) else { return Ok(None) };
    let dims: Option<Vec<u64>> =
        said.as_array().map(|dims| dims.iter().filter_map(Value::as_u64).filter(|dim| *dim > 0).collect());
    match dims.as_deref() {
        Some(&[rows, columns]) => Ok(Some([rows, columns])),
        _ => {
            Err(Error::malformed("weight_block_size is no block").expected("two numbers above 0").found(said))
        }
    }
}
