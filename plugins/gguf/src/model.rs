//! Writes a Hugging Face model folder as a file that llama.cpp loads. This module determines the
//! steps for the tensors, and the metadata. The crate `tensorferry-gguf-model` contains ferry's
//! information about model architectures.

use crate::ARCHITECTURE_KEY;
use std::collections::BTreeMap;
use std::sync::Arc;
use tensorferry_gguf_model::{Architecture, FREQUENCIES, HfModel, family, has_name};
use tensorferry_sdk::{
    CatalogView, Context, Dtype, Error, LayoutSink, Loss, LossKind, Result, Source, Value,
};

const CONFIG: &str = "config.json";
/// Names of the embeddings tensor in transformers and in llama.cpp. Every supported model has this
/// tensor.
const EMBEDDINGS: [&str; 2] = ["model.embed_tokens.weight", "token_embd.weight"];
/// Dtypes that llama.cpp does not support for vectors. Vectors with these dtypes are cast to F32.
const NARROW: [(Dtype, &str); 3] = [(Dtype::BF16, "bf16"), (Dtype::F16, "f16"), (Dtype::F64, "f64")];

/// Information about a model that is taken from its folder instead of its tensors.
#[derive(Default)]
pub(crate) struct Model {
    /// Value of `general.architecture`.
    pub(crate) architecture: &'static str,
    pub(crate) metadata: BTreeMap<String, Value>,
    /// F32 numbers of the tensor [`FREQUENCIES`], as bytes.
    pub(crate) frequencies: Option<Vec<u8>>,
}

/// Returns the steps that convert a transformers model to llama.cpp's layout. Returns no steps if
/// the input is not a transformers model, or if ferry does not know the model.
pub(crate) fn steps(catalog: &dyn CatalogView, context: &dyn Context) -> Result<Vec<String>> {
    let Some(folder) = context.input_folder()? else { return Ok(Vec::new()) };
    if !has(catalog, EMBEDDINGS[0]) {
        return Ok(Vec::new());
    }
    let Some(model) = HfModel::open(&*folder, context.limits())? else { return Ok(Vec::new()) };
    let mut steps = Vec::new();
    let tensors = || catalog.tensor_ids().map(|id| catalog.tensor(id));
    for tensor in tensors() {
        if Architecture::is_computed(tensor.name) {
            steps.push(format!("drop:{}", tensor.name));
        } else if !has_name(tensor.name) {
            return Err(Error::unsupported(format!(
                "llama.cpp's architecture {} has no counterpart for this tensor",
                model.architecture().gguf
            ))
            .tensor(tensor.name)
            .expected("weights of a class such as LlamaForCausalLM")
            .hint(
                "dequantize a quantized model with --step dequantize, or keep its names with -o names=keep",
            ));
        }
    }
    let kept = tensors().filter(|tensor| !Architecture::is_computed(tensor.name));
    model.check_weights(kept.map(|tensor| (tensor.name, tensor.shape)))?;
    steps.push(model.recipe());
    let is_narrow = |dtype| tensors().any(|tensor| tensor.shape.len() == 1 && tensor.dtype == dtype);
    let narrow: String = NARROW
        .iter()
        .filter(|(dtype, _)| is_narrow(*dtype))
        .map(|(_, word)| format!(",dtype={word}"))
        .collect();
    if !narrow.is_empty() {
        steps.push(format!("cast:f32,rank=1{narrow}"));
    }
    Ok(steps)
}

/// Rejects a transformers model folder if its tensors do not have llama.cpp names, because no
/// program could load the resulting file.
pub(crate) fn check_is_known(catalog: &dyn CatalogView, context: &dyn Context) -> Result<()> {
    let Some(folder) = context.input_folder()? else { return Ok(()) };
    let is_of_llama_cpp = catalog.metadata().iter().any(|(key, _)| key == ARCHITECTURE_KEY)
        || catalog.tensor_ids().any(|id| is_named_by_llama_cpp(catalog.tensor(id).name));
    if is_of_llama_cpp {
        return Ok(());
    }
    let Some(found) = family(&*folder, context.limits())? else { return Ok(()) };
    Err(Error::unsupported("ferry does not know llama.cpp's tensor names for this architecture")
        .file(CONFIG)
        .expected(Architecture::classes())
        .found(found)
        .hint("pass -o names=keep to keep the tensor names (llama.cpp does not load such a file)"))
}

/// Returns the information in the input's model folder. The tensors must already have llama.cpp
/// names. Returns `None` if the input is not a model folder. For an unknown model, returns `None`
/// and reports a loss. Metadata is included only if `asks_for_metadata` is set.
pub(crate) fn model_of_folder(
    catalog: &dyn CatalogView,
    pre: Option<&str>,
    asks_for_metadata: bool,
    layout: &mut dyn LayoutSink,
    context: &dyn Context,
) -> Result<Option<Model>> {
    let Some(folder) = context.input_folder()? else { return Ok(None) };
    if catalog.metadata().iter().any(|(key, _)| key == ARCHITECTURE_KEY) {
        return Ok(None);
    }
    let mut is_known = |folder: &Arc<dyn Source>| -> Result<Option<Model>> {
        let Some(model) = HfModel::open(&**folder, context.limits())? else { return Ok(None) };
        // Check the tensors again, because the user may have added other steps.
        let tensors = catalog.tensor_ids().map(|id| catalog.tensor(id));
        model.check_weights(tensors.map(|tensor| (tensor.name, tensor.shape)))?;
        for (what, why) in model.unsupported_settings()? {
            layout.loss(Loss::new(LossKind::Metadata, what, why))?;
        }
        let metadata = if asks_for_metadata { Some(model.metadata(pre)?) } else { None };
        let frequencies = model.frequencies()?;
        let bytes = |factors: Vec<f32>| factors.into_iter().flat_map(f32::to_le_bytes).collect();
        Ok(Some(Model {
            architecture: model.architecture().gguf,
            metadata: metadata.into_iter().flatten().collect(),
            frequencies: frequencies.map(bytes),
        }))
    };
    if has(catalog, EMBEDDINGS[1])
        && let Some(model) = is_known(&folder)?
    {
        return Ok(Some(model));
    }
    // The host considers a sidecar preserved if the writer has opened it, so the writer must report
    // that this sidecar is lost.
    if folder.contains(CONFIG)? {
        let why = format!("GGUF cannot store it; ferry writes metadata only for {}", Architecture::known());
        layout.loss(Loss::new(LossKind::Sidecar, CONFIG, why))?;
    }
    Ok(None)
}

/// Returns the name and shape of the tensor of frequency factors.
pub(crate) fn frequencies(bytes: &[u8]) -> (&'static str, [u64; 1]) {
    (FREQUENCIES, [bytes.len() as u64 / 4])
}

/// Returns whether the name follows llama.cpp's naming scheme.
pub(crate) fn is_named_by_llama_cpp(name: &str) -> bool {
    is_embeddings(name) || name.starts_with("blk.") || name.contains(".blk.")
}

/// Returns whether this is the name of a language model's embeddings in llama.cpp.
pub(crate) fn is_embeddings(name: &str) -> bool {
    name == EMBEDDINGS[1]
}

fn has(catalog: &dyn CatalogView, name: &str) -> bool {
    catalog.tensor_ids().any(|id| catalog.tensor(id).name == name)
}
