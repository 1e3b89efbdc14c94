//! What a model folder's JSON files say of its weights: their dtype, and how they were quantised.

use crate::read::source::FileSource;
use crate::tensors::cast::dtype_called;
use serde_json::Value;
use tensorferry_sdk::{Dtype, Error, Result, Source};

/// The model's configuration.
pub const CONFIG: &str = "config.json";
/// Files that some libraries write beside it, or wrote once, with nothing but the quantisation; they are left out once the
/// weights are dequantised: AutoGPTQ's, AutoAWQ's, ModelOpt's.
pub(crate) const OF_QUANTIZATION: [&str; 3] =
    ["quantize_config.json", "quant_config.json", "hf_quant_config.json"];
/// The keys of a configuration under which it says how weights were quantised; MLX's is the second, and the third is that of
/// older releases of compressed-tensors.
pub const KEYS: [&str; 3] = ["quantization_config", "quantization", "compression_config"];

/// Longer files are no configuration.
const MOST_BYTES: u64 = 16 << 20;

/// What the files beside a model's weights say.
#[derive(Debug, Clone, Default)]
pub struct ModelConfig {
    config: Option<Value>,
    /// A file of [`OF_QUANTIZATION`], by its name.
    beside: Option<(&'static str, Value)>,
}

/// How weights were quantised, as a file says it.
#[derive(Debug, Clone, Copy)]
pub struct Quantization<'a> {
    /// The file.
    pub file: &'static str,
    /// The object.
    pub facts: &'a Value,
}

impl ModelConfig {
    /// Reads the files of an input's folder; those that are not there say nothing.
    ///
    /// # Errors
    /// Malformed, for one that is no JSON; i/o.
    pub fn read(input: &FileSource) -> Result<Self> {
        let source = input.below("");
        let config = read_json(&source, CONFIG, MOST_BYTES)?;
        let mut beside = None;
        for name in OF_QUANTIZATION {
            if beside.is_none() {
                beside = read_json(&source, name, MOST_BYTES)?.map(|value| (name, value));
            }
        }
        source.check_unchanged()?;
        Ok(Self { config, beside })
    }

    /// How the weights were quantised, if a file says so.
    #[must_use]
    pub fn quantization(&self) -> Option<Quantization<'_>> {
        let config = self.config.as_ref();
        let of_key = |key: &str| config?.get(key).or_else(|| config?.get("text_config")?.get(key));
        let object = |key: &str| of_key(key).filter(|facts| facts.is_object());
        // MLX writes both, and the other libraries name their method.
        let named = object(KEYS[0]).filter(|facts| facts.get("quant_method").is_some());
        named
            .or_else(|| object(KEYS[1]))
            .or_else(|| object(KEYS[0]))
            .or_else(|| object(KEYS[2]))
            .map(|facts| Quantization { file: CONFIG, facts })
            .or_else(|| self.beside.as_ref().map(|(file, facts)| Quantization { file, facts }))
    }

    /// The model's configuration.
    #[must_use]
    pub fn json(&self) -> Option<&Value> {
        self.config.as_ref()
    }

    /// The dtype that the configuration names for the weights, if it is one that weights are dequantised to.
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

/// A JSON file of a folder, if it is there.
pub(crate) fn read_json(source: &FileSource, name: &str, most: u64) -> Result<Option<Value>> {
    if !source.contains(name)? {
        return Ok(None);
    }
    let file = source.open(name)?;
    let len = source.len(file);
    if len > most {
        return Err(Error::limit("a configuration is too long")
            .file(name)
            .expected(format!("at most {most} bytes"))
            .found(len));
    }
    let mut text = vec![0; usize::try_from(len).unwrap_or(0)];
    source.read_at(file, 0, &mut text)?;
    let value = serde_json::from_slice(&text);
    value.map(Some).map_err(|error| Error::malformed(format!("no JSON: {error}")).file(name))
}
