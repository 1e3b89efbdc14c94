//! Splits a whole model into the parts of a grid of ranks: the same rules by which parts are joined.

use crate::grid::{GridSize, Rank};
use crate::join::Joint;
use crate::names::{StageOf, is_old, stage_of};
use crate::placement::{Placement, is_embedding, is_gated, is_output, placement};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tensorferry_sdk::{CatalogView, Error, Region, Result, TensorId};

/// The embedding over again, which the last stage has of a model whose output layer it is.
const OUTPUT: &str = "output_layer.weight";

/// Why a model with old names is not written.
pub const OLD_NAME: &str = "runs are written with megatron-core's names, and this is one from before it";

/// What the arguments of a run say of the model.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModelFacts {
    /// Whether MLPs are gated.
    pub gated: Option<bool>,
    /// Whether the output layer is no copy of the embedding.
    pub untied: Option<bool>,
    /// How many layers the decoder has.
    pub layers: Option<u64>,
    /// How many rows the embedding has.
    pub vocabulary: Option<u64>,
    /// How many heads, and groups of queries, attention has.
    pub heads: [Option<u64>; 2],
}

/// What a rank has of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Its name in the rank's file.
    pub name: String,
    /// The tensor.
    pub tensor: TensorId,
    /// Its shape.
    pub shape: Vec<u64>,
    /// The regions of the tensor that it is, one after the other in its rows.
    pub regions: Vec<Region>,
    /// Whether another rank has the same; the first to have it is none. It is a region of whole rows.
    pub is_copy: bool,
}

/// The parts that each rank has. Expert ranks are one.
///
/// # Errors
/// Usage, naming the tensor: what does not divide over the ranks, or is not what the arguments say; unsupported, where its name
/// does not say which ranks have which part.
pub fn split(
    catalog: &dyn CatalogView,
    size: GridSize,
    facts: &ModelFacts,
) -> Result<BTreeMap<Rank, Vec<Part>>> {
    let shapes =
        catalog.tensor_ids().map(|id| catalog.tensor(id)).map(|view| (view.name, view.shape)).collect();
    let layers = count_layers(catalog, facts)?;
    check_divides(size, facts, layers)?;
    let mut splitting = Splitting { size, facts, shapes, layers, ranks: BTreeMap::new() };
    for id in catalog.tensor_ids() {
        let view = catalog.tensor(id);
        let embedding = catalog.tensor_ids().find(|&id| is_embedding(catalog.tensor(id).name));
        let is_tied = facts.untied == Some(false) && is_output(view.name);
        if is_tied && embedding.is_some_and(|embedding| catalog.tied_to(embedding) == catalog.tied_to(id)) {
            continue;
        }
        let added = match is_tied {
            true => Err(Error::usage(
                "the arguments say that the output layer is the embedding, and this one is not",
            )
            .expected("untie_embeddings_and_output_weights, or no such tensor")),
            false => splitting.add(id, view.name, view.shape),
        };
        added.map_err(|error| error.tensor(view.name))?;
    }
    Ok(splitting.ranks)
}

/// How many layers there are, without a gap, as the arguments say.
fn count_layers(catalog: &dyn CatalogView, facts: &ModelFacts) -> Result<u64> {
    let layer = |id| match stage_of(catalog.tensor(id).name) {
        Some(StageOf::Layer(_, number, _)) => Some(number),
        _ => None,
    };
    let layers: BTreeSet<u64> = catalog.tensor_ids().filter_map(layer).collect();
    if let Some((found, expected)) = layers.iter().zip(0..).find(|(found, expected)| *found != expected) {
        return Err(Error::usage("a gap in the decoder's layers")
            .expected(format!("layer {expected}"))
            .found(format!("layer {found}")));
    }
    let count = layers.len() as u64;
    match facts.layers.filter(|&said| said != count) {
        None => Ok(count),
        Some(said) => Err(Error::usage("the model has another number of layers than the arguments say")
            .expected(said)
            .found(format!("{count}, named decoder.layers.N"))),
    }
}

fn check_divides(size: GridSize, facts: &ModelFacts, layers: u64) -> Result<()> {
    let whats = [
        ("the layers do not divide over the stages of the pipeline", Some(layers), size.stages),
        ("the heads do not divide over the tensor ranks", facts.heads[0], size.tensor),
        ("the groups of queries do not divide over the tensor ranks", facts.heads[1], size.tensor),
    ];
    let wrong =
        whats.into_iter().find(|(_, count, ranks)| count.is_some_and(|count| !count.is_multiple_of(*ranks)));
    wrong.map_or(Ok(()), |(what, count, ranks)| {
        Err(Error::usage(what).expected(format!("a multiple of {ranks}")).found(count.unwrap_or_default()))
    })
}

struct Splitting<'c> {
    size: GridSize,
    facts: &'c ModelFacts,
    shapes: HashMap<&'c str, &'c [u64]>,
    layers: u64,
    ranks: BTreeMap<Rank, Vec<Part>>,
}

impl Splitting<'_> {
    fn add(&mut self, id: TensorId, name: &str, shape: &[u64]) -> Result<()> {
        if is_old(name) {
            return Err(Error::unsupported(OLD_NAME));
        }
        let last = self.size.stages - 1;
        let (stage, local) = match stage_of(name) {
            _ if last == 0 => (0, name.to_owned()),
            Some(StageOf::First) => (0, name.to_owned()),
            Some(StageOf::Last) => (last, name.to_owned()),
            Some(StageOf::Layer(stack, number, after)) => {
                let each = self.layers / self.size.stages;
                (number / each, format!("{stack}.{}.{after}", number % each))
            }
            None => {
                return Err(Error::unsupported("its name does not say which stage of the pipeline has it"));
            }
        };
        if let (true, Some(said), Some(&found)) = (is_embedding(name), self.facts.vocabulary, shape.first())
            && said != found
        {
            return Err(Error::usage("the embedding has another number of rows than the arguments say")
                .expected(format!("padded_vocab_size: {said}"))
                .found(found));
        }
        let joint = self.joint(name, shape)?;
        self.put(id, &local, shape, stage, joint)?;
        if is_embedding(name) && last > 0 && self.facts.untied == Some(false) {
            self.put(id, OUTPUT, shape, last, joint)?;
        }
        Ok(())
    }

    /// How it is cut; `None` where all ranks have all of it.
    fn joint(&self, name: &str, shape: &[u64]) -> Result<Option<Joint>> {
        let along = match placement(name) {
            _ if self.size.tensor == 1 => return Ok(None),
            Placement::Replicated => return Ok(None),
            Placement::Along(dim) => Joint::Along(dim),
            Placement::Vocabulary => Joint::Along(0),
            Placement::MaybeGated => {
                let shape_of = |name: &str| self.shapes.get(name).copied();
                match is_gated(name, shape.first().copied(), shape_of, self.facts.gated)? {
                    true => Joint::Halves,
                    false => Joint::Along(0),
                }
            }
            Placement::Refused(what) => return Err(Error::unsupported(what)),
            Placement::Unknown => {
                return Err(Error::unsupported("its name does not say how it is cut over the tensor ranks"));
            }
        };
        Ok(Some(along))
    }

    fn put(
        &mut self,
        id: TensorId,
        name: &str,
        shape: &[u64],
        stage: u64,
        joint: Option<Joint>,
    ) -> Result<()> {
        for tensor in 0..self.size.tensor {
            let regions = match joint {
                Some(joint) => joint.cut(shape, self.size.tensor, tensor)?,
                None => vec![Region::whole(shape)],
            };
            let mut shape = regions.first().map_or_else(Vec::new, |region| region.shape.clone());
            if let (Some(rows), [_, rest @ ..]) = (shape.first_mut(), &*regions) {
                *rows += rest.iter().map(|region| region.shape[0]).sum::<u64>();
            }
            let is_copy = name == OUTPUT && self.facts.untied == Some(false) || joint.is_none() && tensor > 0;
            let part = Part { name: name.to_owned(), tensor: id, shape, regions, is_copy };
            self.ranks.entry(Rank { stage, expert: 0, tensor }).or_default().push(part);
        }
        Ok(())
    }
}
