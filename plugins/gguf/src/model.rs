//! A Hugging Face model folder as a file that llama.cpp loads: which steps its tensors need, and what the file says
//! beside them. What is known of models stands in the crate `tensorferry-gguf-model`.

use crate::ARCHITECTURE_KEY;
use std::collections::BTreeMap;
use std::sync::Arc;
use tensorferry_gguf_model::{Architecture, FREQUENCIES, HfModel, family, has_name};
use tensorferry_sdk::{
    CatalogView, Context, Dtype, Error, LayoutSink, Loss, LossKind, Result, Source, Value,
};

const CONFIG: &str = "config.json";
/// What every such model has, under its name on either side.
const EMBEDDINGS: [&str; 2] = ["model.embed_tokens.weight", "token_embd.weight"];
/// The dtypes of vectors that llama.cpp wants as F32.
const NARROW: [(Dtype, &str); 3] = [(Dtype::BF16, "bf16"), (Dtype::F16, "f16"), (Dtype::F64, "f64")];

/// What a file says of a model beside its weights.
#[derive(Default)]
pub(crate) struct Model {
    /// The word of `general.architecture`.
    pub(crate) architecture: &'static str,
    pub(crate) metadata: BTreeMap<String, Value>,
    /// The bytes of the F32 tensor [`FREQUENCIES`].
    pub(crate) frequencies: Option<Vec<u8>>,
}

/// The steps that make of a model of transformers' one of llama.cpp's; none, if it is not known, or is not one.
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
                "llama.cpp's {} has no tensor for this one",
                model.architecture().gguf
            ))
            .tensor(tensor.name)
            .expected(
                "weights of LlamaForCausalLM and its like, which --step dequantize gives of a quantised model; or -o \
                 names=keep, which carries names as they are",
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

/// Refuses a model folder of transformers whose tensors have no names of llama.cpp: no program loads such a file.
pub(crate) fn check_is_known(catalog: &dyn CatalogView, context: &dyn Context) -> Result<()> {
    let Some(folder) = context.input_folder()? else { return Ok(()) };
    let is_of_llama_cpp = catalog.metadata().iter().any(|(key, _)| key == ARCHITECTURE_KEY)
        || catalog.tensor_ids().any(|id| is_named_by_llama_cpp(catalog.tensor(id).name));
    if is_of_llama_cpp {
        return Ok(());
    }
    let Some(found) = family(&*folder, context.limits())? else { return Ok(()) };
    Err(Error::unsupported("ferry does not know llama.cpp's names for the tensors of this architecture")
        .file(CONFIG)
        .expected(format!(
            "{}; or -o names=keep, which writes the tensors under their own names in a file that llama.cpp does not load",
            Architecture::classes()
        ))
        .found(found))
}

/// What the file says of the model in the input's folder, whose tensors have llama.cpp's names by now; `None` if it is
/// not known, which is a loss, or is not one. Without `asks_for_metadata` nobody needs that.
pub(crate) fn of_folder(
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
        // The steps may be the user's own.
        let tensors = catalog.tensor_ids().map(|id| catalog.tensor(id));
        model.check_weights(tensors.map(|tensor| (tensor.name, tensor.shape)))?;
        for (what, why) in model.unheld()? {
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
    // It was opened to see what it is, so that the host takes it for held.
    if folder.contains(CONFIG)? {
        let why = format!("GGUF has no place for it: ferry writes the metadata of {}", Architecture::known());
        layout.loss(Loss::new(LossKind::Sidecar, CONFIG, why))?;
    }
    Ok(None)
}

/// The name and shape of the tensor of frequencies' factors.
pub(crate) fn frequencies(bytes: &[u8]) -> (&'static str, [u64; 1]) {
    (FREQUENCIES, [bytes.len() as u64 / 4])
}

/// Returns whether llama.cpp has tensors of such a name.
pub(crate) fn is_named_by_llama_cpp(name: &str) -> bool {
    is_embeddings(name) || name.starts_with("blk.") || name.contains(".blk.")
}

/// Whether this is the name of what a language model's file has.
pub(crate) fn is_embeddings(name: &str) -> bool {
    name == EMBEDDINGS[1]
}

fn has(catalog: &dyn CatalogView, name: &str) -> bool {
    catalog.tensor_ids().any(|id| catalog.tensor(id).name == name)
}
