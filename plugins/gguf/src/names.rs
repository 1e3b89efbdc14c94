//! Reads a llama.cpp model as a transformers model. Converts tensor names and row order, and
//! creates the files of a model folder.

use crate::FRAMEWORK_KEY;
use crate::header::Entry;
use crate::set::Set;
use crate::types::GgmlType;
use std::collections::BTreeMap;
use tensorferry_gguf_model::{FREQUENCIES, HfTensors, to_hf};
use tensorferry_sdk::{ByteOrder, CatalogSink, Dtype, Error, Loss, LossKind, Result, Source, Value};

/// Maximum size of the frequency factors in bytes. Real models need far fewer bytes, because an
/// attention head has only 64 to 256 values.
const MAX_FREQUENCIES: u64 = 1 << 18;

/// Declares the step that renames tensors to their transformers names, and the files of a model
/// folder. Removes metadata that these files contain.
pub(crate) fn convert_names_to_hf(
    set: &Set,
    metadata: &mut BTreeMap<String, Value>,
    source: &dyn Source,
    catalog: &mut dyn CatalogSink,
    dequantizes: bool,
) -> Result<()> {
    let tensors = || set.files.iter().flat_map(|member| &member.header.tensors);
    let found = to_hf(
        metadata,
        &HfTensors {
            names: tensors().map(|tensor| &*tensor.name).collect(),
            dtype: dtype(tensors()),
            frequencies: frequencies(set, source)?,
        },
    )?;
    if found.reorders_rows && !dequantizes {
        check_rows(tensors())?;
    }
    for (what, why) in found.losses {
        let kind = if what == FREQUENCIES { LossKind::Tensor } else { LossKind::Sidecar };
        catalog.loss(Loss::new(kind, what, why))?;
    }
    catalog.step(&found.recipe)?;
    for (name, text) in &found.files {
        catalog.sidecar(name, text.as_bytes())?;
    }
    found.held.iter().for_each(|key| drop(metadata.remove(key)));
    // transformers rejects a safetensors file whose metadata does not specify the framework.
    metadata.insert(FRAMEWORK_KEY.to_owned(), Value::text("pt"));
    Ok(())
}

/// Rejects quantized tensors whose rows would have to be reordered, because the host cannot reorder
/// rows of quantized blocks.
fn check_rows<'a>(mut tensors: impl Iterator<Item = &'a Entry>) -> Result<()> {
    let is_turned = |name: &str| ["attn_q.weight", "attn_k.weight"].iter().any(|end| name.ends_with(end));
    let is_block =
        |tensor: &&Entry| matches!(tensor.ggml_type, GgmlType::Blocks(_)) && is_turned(&tensor.name);
    match tensors.find(is_block) {
        Some(tensor) => Err(Error::unsupported("cannot reorder rows of quantized blocks for transformers")
            .tensor(&*tensor.name)
            .hint("dequantize with --step dequantize (or -i dequantize=f32), or pass -i names=keep")
            .found(tensor.ggml_type.name())),
        None => Ok(()),
    }
}

/// Returns the dtype with the most bytes, or `None` if any tensor is quantized.
fn dtype<'a>(tensors: impl Iterator<Item = &'a Entry>) -> Option<&'static str> {
    let names = [(Dtype::F32, "float32"), (Dtype::F16, "float16"), (Dtype::BF16, "bfloat16")];
    let mut bytes = [0_u64; 3];
    for tensor in tensors {
        let GgmlType::Plain(dtype) = tensor.ggml_type else { return None };
        let place = names.iter().position(|(known, _)| *known == dtype)?;
        bytes[place] += tensor.bytes;
    }
    let max = (0..names.len()).max_by_key(|&place| bytes[place])?;
    Some(names[max].1)
}

fn frequencies(set: &Set, source: &dyn Source) -> Result<Option<Vec<f32>>> {
    for member in &set.files {
        let is_it = |tensor: &&Entry| {
            &*tensor.name == FREQUENCIES
                && tensor.ggml_type == GgmlType::Plain(Dtype::F32)
                && tensor.bytes <= MAX_FREQUENCIES
        };
        let Some(tensor) = member.header.tensors.iter().find(is_it) else { continue };
        let mut bytes = vec![0; usize::try_from(tensor.bytes).unwrap_or(0)];
        source.read_at(member.file, member.header.data_offset + tensor.offset, &mut bytes)?;
        let read = match member.header.byte_order {
            ByteOrder::Big => f32::from_be_bytes,
            ByteOrder::Little => f32::from_le_bytes,
        };
        return Ok(Some(bytes.as_chunks().0.iter().map(|&number| read(number)).collect()));
    }
    Ok(None)
}
