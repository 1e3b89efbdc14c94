//! Splits a whole model into parts for a grid of ranks. The rules are the same as for joining
//! parts.

use crate::grid::{GridSize, Rank};
use crate::join::JoinRule;
use crate::names::{StageOf, is_before_core, stage_of};
use crate::placement::{Placement, is_embedding, is_gated, is_output, placement};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tensorferry_sdk::{CatalogView, Error, Region, Result, TensorId};

/// If the output layer is tied to the embedding, the last pipeline stage contains a copy of the
/// embedding with this name.
const OUTPUT: &str = "output_layer.weight";

/// The reason why a model whose parameters have old names is not written.
pub const OLD_NAME: &str = "ferry writes only megatron-core names, and this name is older";

/// Model properties that the arguments of a training run define.
#[derive(Debug, Clone, Copy, Default)]
pub struct ModelFacts {
    pub gated: Option<bool>,
    /// Whether the output layer is not tied to the embedding.
    pub untied: Option<bool>,
    /// Number of layers in the decoder.
    pub layers: Option<u64>,
    /// Number of rows in the embedding.
    pub vocabulary: Option<u64>,
    /// Number of attention heads and number of query groups.
    pub heads: [Option<u64>; 2],
}

/// The part of a tensor that is assigned to a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// Name in the rank's file.
    pub name: String,
    pub tensor: TensorId,
    pub shape: Vec<u64>,
    /// Regions of the tensor. Concatenated along the rows, they form the part.
    pub regions: Vec<Region>,
    /// Whether an earlier rank has the same part. A copy consists of a single region of whole rows.
    pub is_copy: bool,
}

/// Returns the parts of each rank. The grid has only one expert-parallel rank. Fails if a tensor
/// cannot be split evenly or contradicts the arguments, or if its name does not determine the
/// split.
pub fn split(
    catalog: &dyn CatalogView,
    size: GridSize,
    facts: &ModelFacts,
) -> Result<BTreeMap<Rank, Vec<Part>>> {
    let shapes =
        catalog.tensor_ids().map(|id| catalog.tensor(id)).map(|view| (view.name, view.shape)).collect();
    let layers = count_layers(catalog, facts)?;
    check_divides(size, facts, layers)?;
    let mut splitter = Splitter { size, facts, shapes, layers, ranks: BTreeMap::new() };
    for id in catalog.tensor_ids() {
        let view = catalog.tensor(id);
        let embedding = catalog.tensor_ids().find(|&id| is_embedding(catalog.tensor(id).name));
        let is_tied = facts.untied == Some(false) && is_output(view.name);
        if is_tied && embedding.is_some_and(|embedding| catalog.tied_to(embedding) == catalog.tied_to(id)) {
            continue;
        }
        let added = match is_tied {
            true => Err(Error::usage(
                "the arguments tie the output layer to the embedding, but the model has a separate output layer",
            )
            .expected("untie_embeddings_and_output_weights, or no such tensor")),
            false => splitter.add(id, view.name, view.shape),
        };
        added.map_err(|error| error.tensor(view.name))?;
    }
    Ok(splitter.ranks)
}

/// Counts the layers of the model. Fails if their numbers are not consecutive, or if the count
/// differs from the arguments.
fn count_layers(catalog: &dyn CatalogView, facts: &ModelFacts) -> Result<u64> {
    let layer = |id| match stage_of(catalog.tensor(id).name) {
        Some(StageOf::Layer(_, number, _)) => Some(number),
        _ => None,
    };
    let layers: BTreeSet<u64> = catalog.tensor_ids().filter_map(layer).collect();
    if let Some((found, expected)) = layers.iter().zip(0..).find(|(found, expected)| *found != expected) {
        return Err(Error::usage("the decoder's layer numbers have a gap")
            .expected(format!("layer {expected}"))
            .found(format!("layer {found}")));
    }
    let count = layers.len() as u64;
    match facts.layers.filter(|&said| said != count) {
        None => Ok(count),
        Some(declared) => Err(Error::usage("the model's number of layers differs from the arguments")
            .expected(declared)
            .found(format!("{count}, named decoder.layers.N"))),
    }
}

fn check_divides(size: GridSize, facts: &ModelFacts, layers: u64) -> Result<()> {
    let whats = [
        ("the layers cannot be split evenly among the pipeline stages", Some(layers), size.stages),
        ("the heads cannot be split evenly among the tensor ranks", facts.heads[0], size.tensor),
        ("the query groups cannot be split evenly among the tensor ranks", facts.heads[1], size.tensor),
    ];
    let wrong =
        whats.into_iter().find(|(_, count, ranks)| count.is_some_and(|count| !count.is_multiple_of(*ranks)));
    wrong.map_or(Ok(()), |(what, count, ranks)| {
        Err(Error::usage(what).expected(format!("a multiple of {ranks}")).found(count.unwrap_or_default()))
    })
}

struct Splitter<'c> {
    size: GridSize,
    facts: &'c ModelFacts,
    shapes: HashMap<&'c str, &'c [u64]>,
    layers: u64,
    ranks: BTreeMap<Rank, Vec<Part>>,
}

impl Splitter<'_> {
    fn add(&mut self, id: TensorId, name: &str, shape: &[u64]) -> Result<()> {
        if is_before_core(name) {
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
                return Err(Error::unsupported("the name does not determine the pipeline stage"));
            }
        };
        if let (true, Some(declared), Some(&found)) =
            (is_embedding(name), self.facts.vocabulary, shape.first())
            && declared != found
        {
            return Err(Error::usage("the number of rows in the embedding differs from the arguments")
                .expected(format!("padded_vocab_size: {declared}"))
                .found(found));
        }
        let rule = self.join_rule(name, shape)?;
        self.put(id, &local, shape, stage, rule)?;
        if is_embedding(name) && last > 0 && self.facts.untied == Some(false) {
            self.put(id, OUTPUT, shape, last, rule)?;
        }
        Ok(())
    }

    /// Returns the rule for splitting the tensor. Returns `None` if each rank contains the whole
    /// tensor.
    fn join_rule(&self, name: &str, shape: &[u64]) -> Result<Option<JoinRule>> {
        let along = match placement(name) {
            _ if self.size.tensor == 1 => return Ok(None),
            Placement::Replicated => return Ok(None),
            Placement::Along(dim) => JoinRule::Along(dim),
            Placement::Vocabulary => JoinRule::Along(0),
            Placement::MaybeGated => {
                let shape_of = |name: &str| self.shapes.get(name).copied();
                match is_gated(name, shape.first().copied(), shape_of, self.facts.gated)? {
                    true => JoinRule::Halves,
                    false => JoinRule::Along(0),
                }
            }
            Placement::Unsupported(what) => return Err(Error::unsupported(what)),
            Placement::Unknown => {
                return Err(Error::unsupported(
                    "the name does not determine the split among the tensor ranks",
                ));
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
        rule: Option<JoinRule>,
    ) -> Result<()> {
        for tensor in 0..self.size.tensor {
            let regions = match rule {
                Some(rule) => rule.cut(shape, self.size.tensor, tensor)?,
                None => vec![Region::whole(shape)],
            };
            let mut shape = regions.first().map_or_else(Vec::new, |region| region.shape.clone());
            if let (Some(rows), [_, rest @ ..]) = (shape.first_mut(), &*regions) {
                *rows += rest.iter().map(|region| region.shape[0]).sum::<u64>();
            }
            let is_copy = name == OUTPUT && self.facts.untied == Some(false) || rule.is_none() && tensor > 0;
            let part = Part { name: name.to_owned(), tensor: id, shape, regions, is_copy };
            self.ranks.entry(Rank { stage, expert: 0, tensor }).or_default().push(part);
        }
        Ok(())
    }
}
