//! Optimizer states. They contain a rank's pieces of the flat vectors, which store the weights and
//! the optimizer's state.

use crate::collector::{Collector, entry, require, unexpected_value};
use crate::model_states::mapping;
use tensorferry_sdk::{Dtype, Error, Result};
use tensorferry_torch_file::pickle::{Graph, Value, ValueId};
use tensorferry_torch_file::{Location, ObjectFile};

/// How the vectors are split across the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Partitioning {
    /// Stages 1 and 2: the vector of each group is split, and a piece can end inside a parameter.
    Groups,
    /// Stage 3: each parameter is split.
    Parameters,
}

/// The content of one rank's optimizer states.
#[derive(Debug)]
pub(crate) struct OptimizerStates {
    pub(crate) cut: Partitioning,
    /// Number of ranks.
    pub(crate) ranks: u64,
    /// The rank's piece of each group's weights.
    pub(crate) weights: Vec<Location>,
    /// For each group, the keys and values of the optimizer's state, in file order.
    pub(crate) kept: Vec<Vec<(String, OptimizerValue)>>,
    /// For each group, the number of unused elements after each of its parameters.
    pub(crate) paddings: Option<Vec<Vec<u64>>>,
}

/// A value in the optimizer's state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OptimizerValue {
    Tensor(Location),
    /// A Python number as little-endian bytes.
    Number(Dtype, [u8; 8]),
    Other,
}

/// Reads a rank's optimizer states. The optimizer's own state, such as its moments, is read only if
/// `with_kept` is set.
pub(crate) fn read(collector: &mut Collector<'_>, file: &str, with_kept: bool) -> Result<OptimizerStates> {
    collector.read(file, |collector, object| {
        let graph = object.graph();
        let state = require(graph, object.root(), "optimizer_state_dict")?;
        let cut = cut(graph, state)?;
        let ranks = ranks(graph, require(graph, state, "partition_count")?)?;
        let (weights, kept) = match cut {
            Partitioning::Groups => ("single_partition_of_fp32_groups", "base_optimizer_state"),
            Partitioning::Parameters => ("fp32_flat_groups", "optimizer_state_dict"),
        };
        let groups = graph
            .sequence(require(graph, state, weights)?)
            .ok_or_else(|| unexpected_value(weights, "a list of tensors"))?;
        let weights = groups
            .iter()
            .map(|&group| {
                collector.tensor(object, group)?.ok_or_else(|| unexpected_value(weights, "a list of tensors"))
            })
            .collect::<Result<Vec<_>>>()?;
        let kept = match with_kept {
            true => self::kept(collector, object, require(graph, state, kept)?, weights.len())?,
            false => Vec::new(),
        };
        let paddings = match entry(graph, state, "param_alignment_paddings") {
            None => None,
            Some(paddings) => Some(self::paddings(collector, graph, paddings)?),
        };
        Ok(OptimizerStates { cut, ranks, weights, kept, paddings })
    })
}

fn cut(graph: &Graph, state: ValueId) -> Result<Partitioning> {
    let Some(stage) = entry(graph, state, "zero_stage") else {
        // BF16_Optimizer does not record a stage. It splits vectors in the same way as stage 1.
        return match entry(graph, state, "single_partition_of_fp32_groups") {
            Some(_) => Ok(Partitioning::Groups),
            None => Err(Error::malformed("not ZeRO optimizer states").expected("zero_stage")),
        };
    };
    // The stage may be pickled as a member of an enum: ZeroStageEnum(2).
    let number = match graph.call(stage).and_then(|call| graph.tuple(call.arguments)) {
        Some(&[number]) => graph.int(number),
        _ => graph.int(stage),
    };
    match number {
        Some(1 | 2) => Ok(Partitioning::Groups),
        Some(3) => Ok(Partitioning::Parameters),
        Some(other) => Err(Error::unsupported("unknown ZeRO stage").expected("1, 2 or 3").found(other)),
        None => Err(unexpected_value("zero_stage", "a number")),
    }
}

/// Returns the number of ranks. `partition_count` can have a separate number for each group. If
/// experts are spread across fewer ranks than the other parameters, the numbers differ. This case
/// is not supported.
fn ranks(graph: &Graph, count: ValueId) -> Result<u64> {
    let counts: Option<Vec<u64>> = match graph.sequence(count) {
        Some(counts) => counts.iter().map(|&count| graph.count(count)).collect(),
        None => graph.count(count).map(|count| vec![count]),
    };
    match counts.as_deref() {
        Some(&[ranks, ref rest @ ..]) if ranks > 0 => match rest.iter().find(|&&other| other != ranks) {
            None => Ok(ranks),
            Some(other) => {
                let error = Error::unsupported("groups have different numbers of ranks, as with experts");
                Err(error.expected(ranks).found(other))
            }
        },
        _ => Err(unexpected_value("partition_count", "a number of ranks, or one for each group")),
    }
}

/// Reads the optimizer's state. The state is either a list with an entry for each group, or the
/// state dict of an optimizer in which each group is one parameter.
fn kept(
    collector: &mut Collector<'_>,
    object: &ObjectFile,
    value: ValueId,
    groups: usize,
) -> Result<Vec<Vec<(String, OptimizerValue)>>> {
    let graph = object.graph();
    let mut states: Vec<Option<ValueId>> = vec![None; groups];
    let mut put = |index: Option<usize>, state| match index.and_then(|index| states.get_mut(index)) {
        Some(place) => {
            *place = Some(state);
            Ok(())
        }
        None => Err(unexpected_value("the optimizer's state", "an entry for each group")),
    };
    match graph.sequence(value) {
        Some(list) => list.iter().enumerate().try_for_each(|(index, &state)| put(Some(index), state))?,
        None => {
            for (index, state) in mapping(graph, require(graph, value, "state")?, "the optimizer's state")? {
                put(graph.count(index).and_then(|index| usize::try_from(index).ok()), state)?;
            }
        }
    }
    let group = |state: Option<ValueId>| {
        let Some(state) = state else { return Ok(Vec::new()) };
        let entries = mapping(graph, state, "the optimizer's state")?;
        let named = entries.into_iter().map(|(key, value)| {
            let key = graph
                .text(key)
                .ok_or_else(|| unexpected_value("the optimizer's state", "keys that are strings"))?;
            Ok((collector.budget.name(key)?, kept_value(collector, object, value)?))
        });
        named.collect::<Result<Vec<_>>>()
    };
    states.into_iter().map(group).collect()
}

/// Reads a number or a tensor in an optimizer's state.
pub(crate) fn kept_value(
    collector: &mut Collector<'_>,
    object: &ObjectFile,
    value: ValueId,
) -> Result<OptimizerValue> {
    Ok(match object.graph().value(value) {
        Value::Int(number) => OptimizerValue::Number(Dtype::I64, number.to_le_bytes()),
        Value::Float(number) => OptimizerValue::Number(Dtype::F64, number.to_le_bytes()),
        _ => collector.tensor(object, value)?.map_or(OptimizerValue::Other, OptimizerValue::Tensor),
    })
}

fn paddings(collector: &mut Collector<'_>, graph: &Graph, value: ValueId) -> Result<Vec<Vec<u64>>> {
    let expected = || unexpected_value("param_alignment_paddings", "a list of numbers for each group");
    let groups = graph.sequence(value).ok_or_else(expected)?;
    let group = |&group: &ValueId| {
        let numbers = graph.sequence(group).ok_or_else(expected)?.iter().map(|&number| graph.count(number));
        collector.budget.numbers(numbers.collect::<Option<_>>().ok_or_else(expected)?)
    };
    groups.iter().map(group).collect()
}
