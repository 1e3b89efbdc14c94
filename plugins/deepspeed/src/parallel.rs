//! Joins checkpoints with tensor and pipeline parallelism. Each tensor rank stores a part of each
//! parameter, and each layer of a pipeline has its own files. The parts can be joined only if the
//! tensors have names from Megatron-DeepSpeed. These names determine how to join the parts
//! ([`tensorferry_megatron_model`]).
//!
//! ```text
//! mp_rank_TT_model_states.pt                   `module`: the tensor rank's parts, in nested dicts
//! layer_NN-model_TT-model_states.pt            pipelines: the parts of one layer; `module` is then None
//! ```
//! In a pipeline, a tensor's name starts with the number of its layer, as in DeepSpeed's
//! `PipelineModule`: `3.mlp.dense_h_to_4h.weight`.
//!
//! Sources: `deepspeed/runtime/pipe/module.py` (`save_state_dict`, `ckpt_layer_path`) and
//! `deepspeed/runtime/engine.py` (`_get_ckpt_name`) in DeepSpeed 0.19.8.

use crate::collector::{Collector, entry, unexpected_value};
use crate::model_states::NamedTensor;
use crate::rank_files::RankFiles;
use std::collections::HashMap;
use tensorferry_megatron_model::{
    JoinRule, JoinedCatalog, Placement, describe_location, is_gated, placement, same_bytes,
};
use tensorferry_sdk::{Catalog, CatalogSink, Context, Error, Loss, LossKind, Result, Source};
use tensorferry_torch_file::pickle::{Graph, Value, ValueId};
use tensorferry_torch_file::{Location, ObjectFile};

/// Maximum depth of nested dicts in a module.
const MAX_NESTING: usize = 64;

/// The parts of all parameters. The names have the same order as on the first rank.
#[derive(Debug, Default)]
pub(crate) struct Module {
    names: Vec<String>,
    /// For each name, the file and location of each tensor rank's part.
    parts: HashMap<String, Vec<(String, Location)>>,
    others: Vec<String>,
}

/// Reads the parts in the files of all ranks.
pub(crate) fn read(collector: &mut Collector<'_>, files: &RankFiles) -> Result<Module> {
    let mut module = Module::default();
    let layers = files.layers()?;
    if layers.is_empty() {
        let ranks = files.tensor_ranks()?;
        for (rank, &file) in (0..).zip(&ranks) {
            let parts = collector.read(file, |collector, object| {
                check_ranks(object.graph(), object.root(), ranks.len() as u64)?;
                let module = entry(object.graph(), object.root(), "module").ok_or_else(|| {
                    Error::malformed("not DeepSpeed's model states").expected("a dict with module")
                })?;
                tensors(collector, object, module)
            })?;
            module.add(file, rank, "", parts)?;
        }
    }
    for (layer, files) in layers {
        for (rank, file) in (0..).zip(files) {
            let parts =
                collector.read(file, |collector, object| tensors(collector, object, object.root()))?;
            module.add(file, rank, &format!("{layer}."), parts)?;
        }
    }
    Ok(module)
}

fn check_ranks(graph: &Graph, root: ValueId, expected: u64) -> Result<()> {
    let size = entry(graph, root, "mp_world_size").and_then(|size| graph.count(size));
    size.filter(|&size| size != expected).map_or(Ok(()), |size| {
        Err(Error::malformed("the number of tensor ranks differs from the number of files")
            .expected(format!("mp_world_size {expected}"))
            .found(size))
    })
}

/// Returns the tensors in nested dicts, and the names of all values that are not tensors.
fn tensors(
    collector: &mut Collector<'_>,
    object: &ObjectFile,
    root: ValueId,
) -> Result<(Vec<NamedTensor>, Vec<String>)> {
    let graph = object.graph();
    let entries = |value| graph.entries(value).map(Vec::into_iter);
    let mut open =
        vec![(String::new(), entries(root).ok_or_else(|| unexpected_value("a module", "a dict"))?)];
    let (mut tensors, mut others) = (Vec::new(), Vec::new());
    while let Some((prefix, rest)) = open.last_mut() {
        let Some((key, value)) = rest.next() else {
            open.pop();
            continue;
        };
        let key = graph.text(key).ok_or_else(|| unexpected_value("a name", "a string"))?;
        let name = collector.budget.name(&format!("{prefix}{key}"))?;
        match collector.tensor(object, value).map_err(|error| error.tensor(&name))? {
            Some(location) => tensors.push((name, location)),
            None if *graph.value(value) == Value::None => {}
            None => match entries(value) {
                Some(_) if open.len() >= MAX_NESTING => {
                    return Err(Error::limit("modules are nested too deeply")
                        .tensor(name)
                        .expected(format!("at most {MAX_NESTING} levels")));
                }
                Some(inner) => open.push((format!("{name}."), inner)),
                None => others.push(name),
            },
        }
    }
    Ok((tensors, others))
}

impl Module {
    fn add(
        &mut self,
        file: &str,
        rank: usize,
        prefix: &str,
        (tensors, others): (Vec<NamedTensor>, Vec<String>),
    ) -> Result<()> {
        for (name, location) in tensors {
            let name = format!("{prefix}{name}");
            let parts = self.parts.entry(name.clone()).or_default();
            if parts.len() != rank {
                let why = if parts.len() < rank {
                    "the first rank lacks a parameter"
                } else {
                    "two parameters have this name"
                };
                return Err(Error::malformed(why).tensor(name).file(file));
            }
            if rank == 0 {
                self.names.push(name);
            }
            parts.push((file.to_owned(), location));
        }
        if rank == 0 {
            self.others.extend(others.into_iter().map(|name| format!("{prefix}{name}")));
        }
        let lacking =
            self.parts.iter().filter(|(name, parts)| name.starts_with(prefix) && parts.len() <= rank);
        match lacking.map(|(name, _)| name).min() {
            Some(name) => Err(Error::malformed("the rank lacks a parameter that the first rank has")
                .tensor(name)
                .file(file)),
            None => Ok(()),
        }
    }

    /// Joins the parts of each tensor and adds the tensors to a catalog.
    pub(crate) fn write(
        &self,
        source: &dyn Source,
        collected: &Catalog,
        takes_first: bool,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<()> {
        let mut output = JoinedCatalog::new(collected, catalog);
        for name in &self.names {
            context.check_cancelled()?;
            let parts = self.parts.get(name).map(Vec::as_slice).unwrap_or_default();
            let rule = self.rule(name, parts).map_err(|error| error.tensor(name))?;
            let locations: Vec<&Location> = parts.iter().map(|(_, location)| location).collect();
            let added = match rule {
                Some(joint) => output.joined(name, &locations, joint, None),
                None => {
                    let [(first, of), copies @ ..] = parts else { continue };
                    for (file, copy) in copies {
                        let is_alike = (of.dtype, &of.shape) == (copy.dtype, &copy.shape);
                        if is_alike
                            && same_bytes(source, collected, (of, copy), context)
                                .map_err(|error| error.tensor(name))?
                        {
                            continue;
                        }
                        let is_known = placement(name) == Placement::Replicated;
                        if !(takes_first && is_known && is_alike) {
                            return Err(difference(is_known)
                                .tensor(name)
                                .file(file)
                                .expected(format!("{}, as in {first}", describe_location(of)))
                                .found(describe_location(copy)));
                        }
                        let why =
                            format!("the values in {file} differ from those in {first}, which are used");
                        output.catalog.loss(Loss::new(LossKind::Tensor, name, why).requested_by_user())?;
                    }
                    output.whole(name, of)
                }
            };
            added.map_err(|error| error.tensor(name))?;
        }
        let why = "a value of the module that is not a tensor";
        self.others.iter().try_for_each(|name| catalog.loss(Loss::new(LossKind::State, name, why)))
    }

    /// Returns how to join the parts of a tensor, or `None` if the tensor must be the same on all
    /// ranks.
    fn rule(&self, name: &str, parts: &[(String, Location)]) -> Result<Option<JoinRule>> {
        let shape = |name: &str| self.parts.get(name)?.first().map(|(_, location)| &*location.shape);
        Ok(match placement(name) {
            _ if parts.len() == 1 => None,
            Placement::Replicated | Placement::Unknown => None,
            Placement::Along(dim) => Some(JoinRule::Along(dim)),
            Placement::Vocabulary => Some(JoinRule::Along(0)),
            Placement::MaybeGated => {
                let rows = shape(name).and_then(|shape| shape.first().copied());
                let gated = is_gated(name, rows, shape, None)?;
                Some(if gated { JoinRule::Halves } else { JoinRule::Along(0) })
            }
            Placement::Unsupported(what) => return Err(Error::unsupported(what)),
        })
    }
}

fn difference(is_known: bool) -> Error {
    if is_known {
        Error::malformed("the ranks have different values for a tensor that must be equal on all of them")
            .hint("pass -i replicated=first to use the first rank's values")
    } else {
        Error::unsupported(
            "the ranks' parts differ, and the tensor's name does not determine how to join them",
        )
    }
}
