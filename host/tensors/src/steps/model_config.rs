//! Reads information on weights from the JSON files in a model's folder: the weights' dtype, and
//! how the weights were quantized.

use crate::cast::dtype_called;
use serde_json::Value;
use std::collections::HashSet;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{Dtype, Entry, Error, Result, ShardName, ShardTag, Source};

/// The name of the model's configuration file.
pub(crate) const CONFIG: &str = "config.json";
/// The names of files next to the configuration that contain only quantization settings. At least
/// some releases of `AutoGPTQ`, `AutoAWQ`, and `ModelOpt` write these files. The files are not
/// copied if the weights are dequantized.
pub const OF_QUANTIZATION: [&str; 3] = ["quantize_config.json", "quant_config.json", "hf_quant_config.json"];
/// The configuration keys that contain quantization settings. MLX writes the second key, and older
/// compressed-tensors releases write the third key.
pub const KEYS: [&str; 3] = ["quantization_config", "quantization", "compression_config"];

/// Maximum length in bytes of a configuration file.
const MAX_BYTES: u64 = 16 << 20;

/// The contents of the JSON files next to a model's weights.
#[derive(Debug, Clone, Default)]
pub struct ModelConfig {
    config: Option<Value>,
    /// One of the files in [`OF_QUANTIZATION`]: its name and its contents.
    beside: Option<(&'static str, Value)>,
    /// If the input is a single shard of a model, the tensor names in the index next to the shard.
    indexed: HashSet<String>,
}

/// Quantization settings from a file.
#[derive(Debug, Clone, Copy)]
pub struct QuantizationSettings<'a> {
    /// The name of the file.
    pub file: &'static str,
    /// The settings.
    pub facts: &'a Value,
}

impl ModelConfig {
    /// Reads the files of an input's folder. Missing files are skipped, and invalid JSON is an
    /// error.
    pub fn read(input: &FileSource) -> Result<Self> {
        let source = input.in_folder("");
        let config = read_json(&source, CONFIG, MAX_BYTES)?;
        let mut beside = None;
        for name in OF_QUANTIZATION {
            if beside.is_none() {
                beside = read_json(&source, name, MAX_BYTES)?.map(|value| (name, value));
            }
        }
        let indexed = match input.entry() {
            Entry::File(name) => indexed(&source, name)?,
            _ => HashSet::new(),
        };
        source.check_unchanged()?;
        Ok(Self { config, beside, indexed })
    }

    /// Returns whether the index next to a shard contains this tensor. The tensor may be in a
    /// different shard.
    #[must_use]
    pub(crate) fn is_indexed(&self, tensor: &str) -> bool {
        self.indexed.contains(tensor)
    }

    /// Returns the quantization settings, if a file contains them.
    #[must_use]
    pub fn quantization(&self) -> Option<QuantizationSettings<'_>> {
        let config = self.config.as_ref();
        let of_key = |key: &str| config?.get(key).or_else(|| config?.get("text_config")?.get(key));
        let object = |key: &str| of_key(key).filter(|facts| facts.is_object());
        // MLX writes the first two keys, without a method name. The other libraries write the name
        // of their method.
        let named = object(KEYS[0]).filter(|facts| facts.get("quant_method").is_some());
        named
            .or_else(|| object(KEYS[1]))
            .or_else(|| object(KEYS[0]))
            .or_else(|| object(KEYS[2]))
            .map(|facts| QuantizationSettings { file: CONFIG, facts })
            .or_else(|| self.beside.as_ref().map(|(file, facts)| QuantizationSettings { file, facts }))
    }

    #[must_use]
    pub fn json(&self) -> Option<&Value> {
        self.config.as_ref()
    }

    /// Returns the dtype of the weights according to the configuration, if weights can be
    /// dequantized to that dtype.
    #[must_use]
    pub fn dtype(&self) -> Option<Dtype> {
        let config = self.config.as_ref()?;
        let said = |object: &Value| {
            let name = object.get("dtype").or_else(|| object.get("torch_dtype"))?.as_str()?;
            dtype_called(name.strip_prefix("torch.").unwrap_or(name))
        };
        let dtype = said(config).or_else(|| said(config.get("text_config")?));
        dtype.filter(|dtype| matches!(*dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16))
    }
}

/// Returns the names of the tensors in the index, if the file is a shard with an index next to it.
fn indexed(source: &FileSource, name: &str) -> Result<HashSet<String>> {
    let Some(shard) = ShardName::parse(name).filter(|shard| shard.count > 1) else {
        return Ok(HashSet::new());
    };
    let index = format!("{}{}.index.json", ShardTag::stem_without(shard.stem), shard.ending);
    let index = read_json(source, &index, MAX_BYTES)?;
    let named = index.as_ref().and_then(|index| index.get("weight_map")?.as_object());
    Ok(named.into_iter().flat_map(|named| named.keys().cloned()).collect())
}

/// Reads a JSON file of a folder. Returns `None` if the file is missing.
pub(crate) fn read_json(source: &FileSource, name: &str, max: u64) -> Result<Option<Value>> {
    if !source.contains(name)? {
        return Ok(None);
    }
    let file = source.open(name)?;
    let len = source.len(file);
    if len > max {
        return Err(Error::limit("the configuration is too long")
            .file(name)
            .expected(format!("at most {max} bytes"))
            .found(len));
    }
    let mut text = vec![0; usize::try_from(len).unwrap_or(0)];
    source.read_at(file, 0, &mut text)?;
    let value = serde_json::from_slice(&text);
    value.map(Some).map_err(|error| Error::malformed(format!("no JSON: {error}")).file(name))
}
