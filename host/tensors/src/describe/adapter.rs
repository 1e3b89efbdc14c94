//! An adapter is a set of weights that modifies a model and is not a complete model. Examples are
//! LoRA weights from PEFT, diffusers, kohya's trainers, MLX, or llama.cpp.
//!
//! ```text
//! PEFT        L.lora_A.weight [rank, in]     L.lora_B.weight [out, rank]     adapter_config.json
//! diffusers   L.lora.down.weight             L.lora.up.weight
//! kohya       lora_unet_L.lora_down.weight   lora_unet_L.lora_up.weight      ss_* in the metadata
//! llama.cpp   L.weight.lora_a [rank, in]     L.weight.lora_b [out, rank]     adapter.* in the metadata
//! MLX         L.lora_a [in, rank]            L.lora_b [rank, out]            adapter_config.json
//! ```

use super::folder::text;
use super::metadata::Metadata;
use serde::Serialize;
use serde_json::Value;
use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap};
use tensorferry_sdk::{Catalog, Tensor};

/// Suffixes of the names of a low-rank weight's two halves.
const HALVES: [(&str, &str); 6] = [
    (".lora_A.weight", ".lora_B.weight"),
    (".lora_A.default.weight", ".lora_B.default.weight"),
    (".lora_down.weight", ".lora_up.weight"),
    (".lora.down.weight", ".lora.up.weight"),
    (".lora_linear_layer.down.weight", ".lora_linear_layer.up.weight"),
    (".lora_a", ".lora_b"),
];
/// Maximum number of modules that a description lists.
const MAX_TARGETS: usize = 64;

/// The description of an adapter.
#[derive(Debug, Serialize)]
pub struct Adapter {
    /// The training method, by its name in PEFT, such as `LORA`.
    pub method: String,
    /// The model that the adapter was trained for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_model: Option<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub ranks: BTreeSet<u64>,
    /// The LoRA alpha: the rank times the factor by which the product of the two halves is scaled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha: Option<f64>,
    /// The modules that the adapter changes.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub targets: BTreeSet<String>,
}

impl Adapter {
    /// Recognizes an adapter by the tensor names in its catalog, the configuration in its folder,
    /// and its metadata.
    pub(super) fn of(catalog: &Catalog, config: Option<&Value>, metadata: &Metadata<'_>) -> Option<Self> {
        let by_name: LazyCell<HashMap<&str, &Tensor>, _> =
            LazyCell::new(|| catalog.tensors().iter().map(|tensor| (tensor.name.as_str(), tensor)).collect());
        let (mut ranks, mut targets) = (BTreeSet::new(), BTreeSet::new());
        for tensor in catalog.tensors() {
            let halves = HALVES.iter().find_map(|(a, b)| Some((tensor.name.strip_suffix(a)?, b)));
            let Some((start, other)) = halves else { continue };
            let Some(other) = by_name.get(&*format!("{start}{other}")) else { continue };
            ranks.extend(rank(&tensor.shape, &other.shape));
            if targets.len() < MAX_TARGETS {
                targets.insert(module(start).to_owned());
            }
        }
        let config = config.filter(|config| is_of(config, &ranks));
        if ranks.is_empty() && config.is_none() {
            return None;
        }
        let said = |key: &str| config.and_then(|config| text(config, key)).map(str::to_owned);
        let number = |key: &str| config?.get(key)?.as_f64();
        if let Some(named) = config.map(modules).filter(|named| !named.is_empty()) {
            targets = named;
        }
        if let (true, Some(rank)) = (ranks.is_empty(), config.and_then(|config| config.get("r")?.as_u64())) {
            ranks.insert(rank);
        }
        Some(Self {
            method: said("peft_type")
                .or_else(|| said("fine_tune_type").map(|method| method.to_uppercase()))
                .unwrap_or_else(|| "LORA".to_owned()),
            base_model: said("base_model_name_or_path").or_else(|| said("model")).or_else(|| {
                let keys =
                    ["general.base_model.0.name", "ss_sd_model_name", "ss_base_model_version"].into_iter();
                keys.filter_map(|key| metadata.text(key)).find(|name| name != "None")
            }),
            ranks,
            alpha: number("lora_alpha")
                .or_else(|| metadata.number("adapter.lora.alpha"))
                .or_else(|| metadata.number("ss_network_alpha")),
            targets,
        })
    }
}

/// Returns whether a configuration describes an adapter of the tensors next to it. A configuration
/// from PEFT names the method. A configuration from MLX counts only if the catalog has low-rank
/// tensors, because MLX also writes a configuration after tuning a whole model.
fn is_of(config: &Value, ranks: &BTreeSet<u64>) -> bool {
    text(config, "peft_type").is_some() || !ranks.is_empty()
}

/// Returns the rank, which is the dimension that both halves share. If the halves share two
/// dimensions, the rank is the smaller one.
fn rank(a: &[u64], b: &[u64]) -> Option<u64> {
    let ([first, second, ..], [rows, columns, ..]) = (a, b) else { return None };
    // Convolution kernels have the shapes [rank, in, h, w] and [out, rank, 1, 1].
    let shared = [(first, columns), (second, rows)].into_iter();
    shared.filter(|(mine, theirs)| mine == theirs).map(|(mine, _)| *mine).min()
}

/// Returns the last component of a module's path. Names from kohya's trainers do not contain dots.
/// For such a name, returns the part of the pipeline that it begins with, such as `lora_unet`.
fn module(path: &str) -> &str {
    let path = path.strip_suffix(".weight").unwrap_or(path);
    match ["lora_unet", "lora_te1", "lora_te2", "lora_te3", "lora_te"]
        .into_iter()
        .find(|part| path.starts_with(&format!("{part}_")))
    {
        Some(part) if !path.contains('.') => part,
        _ => path.rsplit('.').next().unwrap_or(path),
    }
}

/// Returns the modules that a configuration names. The configuration contains a list of names, or a
/// single expression.
fn modules(config: &Value) -> BTreeSet<String> {
    let keys = config.get("lora_parameters").and_then(|lora| lora.get("keys"));
    match config.get("target_modules").filter(|named| !named.is_null()).or(keys) {
        Some(Value::String(one)) => BTreeSet::from([one.clone()]),
        Some(Value::Array(all)) => {
            all.iter().filter_map(Value::as_str).take(MAX_TARGETS).map(str::to_owned).collect()
        }
        _ => BTreeSet::new(),
    }
}
