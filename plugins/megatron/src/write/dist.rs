//! Writes a `torch_dist` checkpoint. This is a torch distributed checkpoint in which each tensor
//! contains all layers of a stack.
//!
//! ```text
//! metadata.json            the library that wrote it
//! common.pt                arguments, iteration, and whether layers are stacked
//! .metadata, __0_0.distcp  the tensors
//! ```
//!
//! Sources: `megatron/core/dist_checkpointing` and `transformer_block.py` in megatron-core 0.16.1.

use crate::like::{COMMON, TemplateRun};
use std::collections::{BTreeSet, HashMap, HashSet};
use tensorferry_megatron_model::{
    DistName, GridSize, OLD_NAME, Placement, dist_name, extra_states, is_before_core, is_embedding,
    is_output, placement,
};
use tensorferry_sdk::{
    CatalogView, Context, Error, LayoutSink, Loss, LossKind, Result, Role, Severity, ShardTag, TensorId,
};
use tensorferry_torch_dcp::written::{DcpChunk, DcpPlan, DcpTensor, lay_out, unsupported_reason};
use tensorferry_torch_file::{PickleWriter, WrittenArchive, ZipPlan};

const CONFIG: &[u8] = br#"{"sharded_backend": "torch_dist", "sharded_backend_version": 1, "common_backend": "torch", "common_backend_version": 1}"#;

pub(super) fn plan(
    catalog: &dyn CatalogView,
    like: Option<&TemplateRun>,
    folder: &str,
    layout: &mut dyn LayoutSink,
    context: &dyn Context,
) -> Result<DcpPlan> {
    let mut ids = Vec::new();
    let embedding = catalog.tensor_ids().find(|&id| is_embedding(catalog.tensor(id).name));
    for id in catalog.tensor_ids() {
        let view = catalog.tensor(id);
        // Refuse tensors that Megatron saves under different names or as several tensors.
        let refused = match placement(view.name) {
            _ if is_before_core(view.name) => Some(OLD_NAME),
            Placement::Unsupported(what) => Some(what),
            _ => None,
        };
        if let Some(why) = refused {
            return Err(Error::unsupported(why).tensor(view.name));
        }
        let of = embedding.filter(|&of| is_output(view.name) && catalog.tied_to(of) == catalog.tied_to(id));
        match (of, unsupported_reason(view.dtype, view.shape)) {
            // If the output layer is tied to the embedding, Megatron does not save a separate
            // output layer.
            (Some(of), _) => {
                layout.alias(id, of)?;
                layout.written_as(id, catalog.tensor(of).name)?;
            }
            (None, Some(why)) => layout.omit(id, &why)?,
            (None, None) => ids.push(id),
        }
    }
    let stacked = stacks(catalog, &ids, true).filter(|tensors| tensors.iter().all(is_tiled));
    let is_stacked = stacked.is_some();
    let tensors = match stacked.or_else(|| stacks(catalog, &ids, false)) {
        Some(tensors) if tensors.iter().all(is_tiled) => tensors,
        _ => {
            return Err(Error::usage("the experts of a layer differ in shape or dtype, or some are missing"));
        }
    };
    if !is_stacked {
        context.note("the layers differ, so each has separate tensors (non_homogeneous_layers)");
    }
    let names = names(catalog);
    let place = |id| dist_name(catalog.tensor(id).name, is_stacked, |name| names.contains(name));
    let slices: Vec<DistName> = ids.iter().map(|&id| place(id)).collect();
    for (&id, DistName { read_as, .. }) in ids.iter().zip(&slices) {
        let name = catalog.tensor(id).name;
        if read_as != name {
            let why =
                format!("its name in a distributed checkpoint is {read_as:?}, as in Transformer Engine");
            layout.loss(Loss::new(LossKind::Name, name, why).severity(Severity::Note))?;
            layout.written_as(id, read_as)?;
        }
    }
    let shapes: HashMap<&str, &[u64]> =
        tensors.iter().map(|tensor| (&*tensor.name, &*tensor.shape)).collect();
    let counts = |slice: &DistName| {
        let dims = shapes.get(&*slice.key).copied().unwrap_or_default();
        let at = |dim: usize| dims.get(dim).copied().unwrap_or(0);
        [at(0), at(usize::from(slice.layer.is_some()))]
    };
    let states = extra_states(slices.iter().map(|slice| (slice, counts(slice))));
    let states: Vec<String> = states.into_iter().collect();
    let config = layout.file(&format!("{folder}/metadata.json"), Role::Data)?;
    layout.bytes(config, CONFIG)?;
    let common = common(like, is_stacked, layout)?;
    let file = layout.file(&format!("{folder}/{COMMON}"), Role::Data)?;
    let archive = WrittenArchive { root: "common", pickle: &common, own: None };
    let common: ZipPlan = archive.lay_out(layout, file, [], |_, layout, file| layout.bytes(file, &[]))?;
    let plan = lay_out(&tensors, &states, &format!("{folder}/"), ShardTag::default(), catalog, layout)?;
    layout.supersedes(&format!("{folder}/*.distcp"), Role::Data)?;
    Ok(plan.with(common))
}

fn names(catalog: &dyn CatalogView) -> HashSet<&str> {
    catalog.tensor_ids().map(|id| catalog.tensor(id).name).collect()
}

/// Combines slices into the tensors of the checkpoint. Returns `None` if the slices of a tensor
/// differ in dtype or shape, or if the tensors of a stack differ in the number of layers.
fn stacks(catalog: &dyn CatalogView, ids: &[TensorId], is_stacked: bool) -> Option<Vec<DcpTensor>> {
    let names = names(catalog);
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut tensors: Vec<DcpTensor> = Vec::new();
    for &id in ids {
        let view = catalog.tensor(id);
        let DistName { key, layer, expert, .. } =
            dist_name(view.name, is_stacked, |name| names.contains(name));
        let slices = [layer, expert].into_iter().flatten();
        let offsets: Vec<u64> = slices.clone().chain(view.shape.iter().map(|_| 0)).collect();
        let sizes: Vec<u64> = slices.clone().map(|_| 1).chain(view.shape.iter().copied()).collect();
        let own = slices.count();
        let place = *places.entry(key.clone()).or_insert(tensors.len());
        if place == tensors.len() {
            tensors.push(DcpTensor {
                name: key,
                dtype: view.dtype,
                shape: sizes.clone(),
                chunks: Vec::new(),
            });
        }
        let whole = &mut tensors[place];
        if whole.dtype != view.dtype || whole.shape.len() != sizes.len() || whole.shape[own..] != sizes[own..]
        {
            return None;
        }
        for (len, offset) in whole.shape[..own].iter_mut().zip(&offsets) {
            *len = (*len).max(offset + 1);
        }
        whole.chunks.push(DcpChunk { tensor: id, offsets, sizes });
    }
    // All tensors in a stack must have the same number of layers.
    let layers =
        |tensor: &DcpTensor| tensor.shape.len() > catalog.tensor(tensor.chunks[0].tensor).shape.len();
    let counts: BTreeSet<(&str, u64)> = tensors
        .iter()
        .filter(|tensor| is_stacked && layers(tensor))
        .filter_map(|tensor| Some((tensor.name.split_once("layers.")?.0, tensor.shape[0])))
        .collect();
    let stacks: BTreeSet<&str> = counts.iter().map(|(stack, _)| *stack).collect();
    (counts.len() == stacks.len()).then_some(tensors)
}

/// Returns whether the slices cover the whole tensor without overlaps.
fn is_tiled(tensor: &DcpTensor) -> bool {
    let slices = tensor.chunks.iter().map(|chunk| &chunk.offsets).collect::<BTreeSet<_>>();
    let own = tensor.chunks.first().map_or(0, |chunk| {
        chunk.sizes.iter().zip(&tensor.shape).filter(|(size, len)| size != len).map(|(_, len)| *len).product()
    });
    slices.len() == tensor.chunks.len() && (tensor.chunks.len() as u64 == own || own == 1)
}

/// Pickles everything in the checkpoint that is not a tensor.
fn common(like: Option<&TemplateRun>, is_stacked: bool, layout: &mut dyn LayoutSink) -> Result<Vec<u8>> {
    let mut pickle = PickleWriter::new();
    pickle.empty_dict();
    pickle.mark();
    if let Some(like) = like {
        pickle.text("args")?;
        let size = GridSize { tensor: 1, stages: 1, experts: 1 };
        TemplateRun::report(&like.push(size, "torch_dist", &mut pickle)?, layout)?;
    }
    pickle.text("checkpoint_version")?;
    pickle.float(3.0);
    pickle.text("iteration")?;
    pickle.int(like.and_then(|like| like.iteration).unwrap_or(0));
    pickle.text("content_metadata")?;
    pickle.empty_dict();
    pickle.mark();
    for (key, value) in [("non_homogeneous_layers", !is_stacked), ("singleton_local_shards", false)] {
        pickle.text(key)?;
        pickle.bool(value);
    }
    pickle.set_items();
    pickle.set_items();
    Ok(pickle.finish())
}
