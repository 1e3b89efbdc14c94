//! Joins the optimizer states of all ranks. The parameters are assembled from flat vectors that are
//! split across the ranks.

use crate::collector::Collector;
use crate::model_states::NamedShape;
use crate::optimizer_states::{self, OptimizerStates, OptimizerValue, Partitioning};
use crate::rank_files::RankFiles;
use crate::selected::Elements;
use crate::split_vector::SplitVector;
use std::cmp::min;
use tensorferry_sdk::{Dtype, Error, Result, element_count};
use tensorferry_torch_file::Location;

/// The optimizer states of all ranks in a run, which has at least one rank.
pub(crate) struct Ranks {
    cut: Partitioning,
    states: Vec<OptimizerStates>,
}

/// For each rank and each group, the rank's piece of the group's vector, or `None` if the group
/// does not have the vector.
pub(crate) type Pieces<'r> = Vec<Vec<Option<&'r Location>>>;

impl Ranks {
    /// Reads the optimizer states of all ranks.
    pub(crate) fn read(collector: &mut Collector<'_>, files: &RankFiles, with_kept: bool) -> Result<Self> {
        let any = files.any_optimizer()?;
        let first = optimizer_states::read(collector, any, with_kept)?;
        let (count, cut, groups) = (first.ranks, first.cut, first.weights.len());
        if files.is_partitioned != (cut == Partitioning::Parameters) {
            let error =
                Error::malformed("the model states and the optimizer states have different ZeRO stages");
            return Err(error.file(any));
        }
        let mut states = vec![first];
        for file in files.optimizer(count)?.into_iter().skip(1) {
            let rank = optimizer_states::read(collector, file, with_kept)?;
            if (rank.ranks, rank.cut, rank.weights.len()) != (count, cut, groups) {
                return Err(Error::malformed("the rank's states are from a different run than rank 0's")
                    .file(file)
                    .expected(format!("{count} ranks, {groups} groups"))
                    .found(format!("{} ranks, {} groups", rank.ranks, rank.weights.len())));
            }
            states.push(rank);
        }
        Ok(Self { cut, states })
    }

    pub(crate) fn count(&self) -> u64 {
        self.states.len() as u64
    }

    /// Returns the pieces of the vectors that contain the weights.
    pub(crate) fn weights(&self) -> Pieces<'_> {
        self.states.iter().map(|rank| rank.weights.iter().map(Some).collect()).collect()
    }

    /// Returns the pieces of the vectors that the optimizer stores under a key.
    pub(crate) fn kept(&self, key: &str) -> Pieces<'_> {
        let ranks = self.states.iter().map(|rank| {
            let groups = rank.weights.iter().zip(&rank.kept);
            groups.map(|(weights, kept)| vector(weights, under(kept, key)?)).collect()
        });
        ranks.collect()
    }

    /// Returns the keys of the vectors in the optimizer's state, in file order.
    pub(crate) fn vector_keys(&self) -> Vec<&str> {
        let mut keys = Vec::new();
        for (weights, kept) in self.groups() {
            for (key, _) in kept.iter().filter(|(_, kept)| vector(weights, kept).is_some()) {
                if !keys.contains(&key.as_str()) {
                    keys.push(key);
                }
            }
        }
        keys
    }

    /// Returns the values that the optimizer stores once per group, such as the number of steps.
    pub(crate) fn of_whole_group(&self, group: usize) -> impl Iterator<Item = (&str, &OptimizerValue)> {
        let group = self.groups().nth(group);
        group.into_iter().flat_map(|(weights, kept)| {
            let of_group = kept.iter().filter(move |(_, kept)| vector(weights, kept).is_none());
            of_group.map(|(key, kept)| (key.as_str(), kept))
        })
    }

    /// Returns the elements of each parameter, in the order of `groups`. The elements are `None` if
    /// the parameter's group has no vector.
    pub(crate) fn join(
        &self,
        groups: &[Vec<NamedShape>],
        pieces: &Pieces<'_>,
    ) -> Result<Vec<Option<Elements>>> {
        match self.cut {
            Partitioning::Groups => self.join_groups(groups, pieces),
            Partitioning::Parameters => self.join_parameters(groups, pieces),
        }
    }

    /// Joins parameters in stages 1 and 2, where the vector of a group is the concatenation of the
    /// ranks' pieces.
    fn join_groups(&self, groups: &[Vec<NamedShape>], pieces: &Pieces<'_>) -> Result<Vec<Option<Elements>>> {
        let first = &self.states[0];
        if groups.len() != first.weights.len() {
            return Err(differ(
                "the number of groups in param_shapes differs from the number of vectors",
                first.weights.len(),
                groups.len(),
            ));
        }
        let mut joined = Vec::new();
        for (index, parameters) in groups.iter().enumerate() {
            if pieces[0][index].is_none() {
                joined.extend(parameters.iter().map(|_| None));
                continue;
            }
            let pieces: Option<Vec<&Location>> = pieces.iter().map(|rank| rank[index]).collect();
            let pieces = pieces.ok_or_else(|| Error::malformed("a rank lacks a vector that rank 0 has"))?;
            let dtype = same_dtype(pieces.iter().copied())?;
            let mut vector = SplitVector::new(width(dtype));
            for (piece, rank) in pieces.into_iter().zip(&self.states) {
                // The optimizer's vectors end with padding, which the vectors of the weights do not
                // have. Use the length of the weights.
                vector.push(piece, element_count(&rank.weights[index].shape)?)?;
            }
            let paddings = match &first.paddings {
                None => None,
                Some(paddings) => {
                    match paddings.get(index).filter(|paddings| paddings.len() == parameters.len()) {
                        Some(paddings) => Some(paddings),
                        None => {
                            return Err(Error::malformed(
                                "param_alignment_paddings does not have a number for each parameter",
                            ));
                        }
                    }
                }
            };
            self.take_group(parameters, paddings.map(Vec::as_slice), &vector, dtype, &mut joined)?;
        }
        Ok(joined)
    }

    fn take_group(
        &self,
        parameters: &[NamedShape],
        paddings: Option<&[u64]>,
        vector: &SplitVector,
        dtype: Dtype,
        joined: &mut Vec<Option<Elements>>,
    ) -> Result<()> {
        let mut at = 0_u64;
        for (index, (name, shape)) in parameters.iter().enumerate() {
            let len = element_count(shape)?;
            let runs = vector.range(at, len).ok_or_else(|| too_short(name, vector.len(), at, len))?;
            joined.push(Some(Elements::Split { dtype, shape: shape.clone(), runs }));
            let padding = paddings.map_or(0, |paddings| paddings[index]);
            at = len.checked_add(padding).and_then(|step| at.checked_add(step)).ok_or_else(too_large)?;
        }
        // Each vector was padded to a multiple of `unit`. The padding may have been removed.
        let unit = 2 * self.count();
        if at.div_ceil(unit) != vector.len().div_ceil(unit) {
            let name = parameters.first().map_or("", |(name, _)| name);
            let error = differ("a vector is longer than all of its parameters", at, vector.len());
            return Err(error.context(format!("the group of {name:?}")));
        }
        Ok(())
    }

    /// Joins parameters in stage 3, where each parameter is the concatenation of the ranks' shares.
    /// First concatenates the vectors of all groups for each rank.
    fn join_parameters(
        &self,
        groups: &[Vec<NamedShape>],
        pieces: &Pieces<'_>,
    ) -> Result<Vec<Option<Elements>>> {
        let all: Option<Vec<Vec<&Location>>> =
            pieces.iter().map(|rank| rank.iter().copied().collect::<Option<_>>()).collect();
        let pieces =
            all.ok_or_else(|| Error::malformed("a rank or a group lacks a vector that the others have"))?;
        let dtype = same_dtype(pieces.iter().flatten().copied())?;
        let mut vectors = Vec::with_capacity(pieces.len());
        for (rank, states) in pieces.into_iter().zip(&self.states) {
            let mut vector = SplitVector::new(width(dtype));
            for (piece, weights) in rank.into_iter().zip(&states.weights) {
                vector.push(piece, element_count(&weights.shape)?)?;
            }
            vectors.push(vector);
        }
        let mut joined = Vec::new();
        let mut at = 0_u64;
        for (name, shape) in groups.iter().flatten() {
            let len = element_count(shape)?;
            let share = len.div_ceil(self.count());
            let mut runs = Vec::new();
            let mut rest = len;
            for vector in &vectors {
                let taken = min(share, rest);
                runs.extend(vector.range(at, taken).ok_or_else(|| too_short(name, vector.len(), at, taken))?);
                rest -= taken;
            }
            joined.push(Some(Elements::Split { dtype, shape: shape.clone(), runs }));
            at = at.checked_add(share).ok_or_else(too_large)?;
        }
        match vectors.iter().find(|vector| vector.len() != at) {
            Some(vector) => {
                Err(differ("the length of a rank's vectors does not match its shares", at, vector.len()))
            }
            None => Ok(joined),
        }
    }

    /// Returns the weights and the optimizer's values of each of rank 0's groups.
    fn groups(&self) -> impl Iterator<Item = (&Location, &[(String, OptimizerValue)])> {
        let first = &self.states[0];
        first.weights.iter().zip(first.kept.iter().map(Vec::as_slice))
    }
}

fn under<'k>(kept: &'k [(String, OptimizerValue)], key: &str) -> Option<&'k OptimizerValue> {
    kept.iter().find(|(other, _)| other == key).map(|(_, kept)| kept)
}

/// Returns the location of a value if the value is a vector with at least one element for each
/// weight.
fn vector<'k>(weights: &Location, kept: &'k OptimizerValue) -> Option<&'k Location> {
    let OptimizerValue::Tensor(location) = kept else { return None };
    match (&*location.shape, &*weights.shape) {
        ([len], [weights]) if len >= weights => Some(location),
        _ => None,
    }
}

/// Returns the dtype of the pieces, or an error if their dtypes differ.
pub(crate) fn same_dtype<'p>(mut pieces: impl Iterator<Item = &'p Location>) -> Result<Dtype> {
    let dtype = pieces.next().map_or(Dtype::F32, |piece| piece.dtype);
    match pieces.find(|piece| piece.dtype != dtype) {
        Some(other) => Err(differ("pieces of one vector differ in dtype", word(dtype), word(other.dtype))),
        None if dtype.info().is_some_and(|info| info.element_bytes().is_some()) => Ok(dtype),
        None => Err(Error::unsupported("a vector whose elements share bytes").found(word(dtype))),
    }
}

/// Returns the number of bytes per element.
pub(crate) fn width(dtype: Dtype) -> u32 {
    dtype.info().and_then(|info| info.element_bytes()).unwrap_or(1)
}

fn word(dtype: Dtype) -> &'static str {
    dtype.info().map_or("?", |info| info.name())
}

fn too_short(name: &str, have: u64, at: u64, len: u64) -> Error {
    Error::malformed("the vectors end before the parameter ends")
        .tensor(name)
        .expected(format!("{len} elements at {at}"))
        .found(format!("{have} in all"))
}

fn too_large() -> Error {
    Error::malformed("a length does not fit in 64 bits")
}

fn differ(what: &str, expected: impl std::fmt::Display, collector: impl std::fmt::Display) -> Error {
    Error::malformed(what).expected(expected).found(collector)
}
