//! Model states. They contain the layout of the flat vectors, and the tensors that are not in the
//! vectors (buffers and frozen parameters).

use crate::collector::{Collector, entry, require, unexpected_value};
use std::collections::HashSet;
use tensorferry_sdk::{Error, Result};
use tensorferry_torch_file::pickle::{Graph, Value, ValueId};
use tensorferry_torch_file::rebuild::counts;
use tensorferry_torch_file::{Location, ObjectFile};

pub(crate) type NamedTensor = (String, Location);
pub(crate) type NamedShape = (String, Vec<u64>);

/// The content of rank 0's model states.
#[derive(Debug)]
pub(crate) struct ModelStates {
    /// All tensors in the module's state dict. Each tensor is complete. In stage 3, the state
    /// dict's parameters are empty.
    pub(crate) module: Vec<NamedTensor>,
    /// Names of values in the module that are not tensors.
    pub(crate) others: Vec<String>,
    pub(crate) buffers: Vec<String>,
    /// Parameters of each vector, in order.
    pub(crate) groups: Vec<Vec<NamedShape>>,
    /// Parameters that were not trained.
    pub(crate) frozen: Vec<NamedShape>,
    /// Additional names for parameters, as pairs of the additional name and the parameter's name.
    pub(crate) shared: Vec<(String, String)>,
}

/// Reads rank 0's model states, which describe the checkpoint.
pub(crate) fn read(collector: &mut Collector<'_>, file: &str) -> Result<ModelStates> {
    collector.read(file, |collector, object| {
        let graph = object.graph();
        let root = object.root();
        let buffers = entry(graph, root, "buffer_names").and_then(|names| graph.sequence(names));
        let buffers = buffers.ok_or_else(|| {
            Error::malformed("not DeepSpeed's model states").expected("a dict with buffer_names")
        })?;
        check_alone(graph, root)?;
        let name = |collector: &mut Collector<'_>, name: ValueId| {
            collector.budget.name(graph.text(name).ok_or_else(|| unexpected_value("a name", "a string"))?)
        };
        let buffers = buffers.iter().map(|&buffer| name(collector, buffer)).collect::<Result<_>>()?;
        let (mut module, mut others) = (Vec::new(), Vec::new());
        for (key, value) in mapping(graph, need_module(graph, root)?, "module")? {
            let name = name(collector, key)?;
            match collector.tensor(object, value).map_err(|error| error.tensor(&name))? {
                Some(location) => module.push((name, location)),
                None => others.push(name),
            }
        }
        let groups: Vec<Vec<NamedShape>> = match entry(graph, root, "param_shapes") {
            None => Vec::new(),
            Some(groups) => {
                let groups = graph
                    .sequence(groups)
                    .ok_or_else(|| unexpected_value("param_shapes", "a list of dicts"))?;
                groups
                    .iter()
                    .map(|&group| shapes(collector, graph, group, "param_shapes"))
                    .collect::<Result<_>>()?
            }
        };
        let mut names = HashSet::new();
        if let Some((twice, _)) = groups.iter().flatten().find(|(name, _)| !names.insert(name)) {
            return Err(Error::malformed("two parameters have this name").tensor(twice));
        }
        let frozen = match entry(graph, root, "frozen_param_shapes") {
            None => Vec::new(),
            Some(frozen) => shapes(collector, graph, frozen, "frozen_param_shapes")?,
        };
        let mut shared = Vec::new();
        if let Some(names) = entry(graph, root, "shared_params") {
            for (alias, source) in mapping(graph, names, "shared_params")? {
                shared.push((name(collector, alias)?, name(collector, source)?));
            }
        }
        Ok(ModelStates { module, others, buffers, groups, frozen, shared })
    })
}

/// Reads a rank's fragments of the frozen parameters, in the order of `frozen`.
pub(crate) fn read_frozen(
    collector: &mut Collector<'_>,
    file: &str,
    frozen: &[NamedShape],
) -> Result<Vec<Location>> {
    collector.read(file, |collector, object| fragments(collector, object, frozen))
}

fn fragments(
    collector: &mut Collector<'_>,
    object: &ObjectFile,
    frozen: &[NamedShape],
) -> Result<Vec<Location>> {
    let graph = object.graph();
    let fragments =
        mapping(graph, require(graph, object.root(), "frozen_param_fragments")?, "frozen_param_fragments")?;
    let by_name: std::collections::HashMap<&str, ValueId> =
        fragments.into_iter().filter_map(|(name, value)| Some((graph.text(name)?, value))).collect();
    let fragment = |(name, _): &NamedShape| {
        let value = by_name.get(name.as_str()).copied();
        let location = value.map_or(Ok(None), |value| collector.tensor(object, value));
        location
            .and_then(|location| {
                location.ok_or_else(|| Error::malformed("a frozen parameter has no fragment"))
            })
            .map_err(|error| error.tensor(name))
    };
    frozen.iter().map(fragment).collect()
}

/// Returns the module, or an error if the file does not contain a module. With pipeline
/// parallelism, the module is in other files.
fn need_module(graph: &Graph, root: ValueId) -> Result<ValueId> {
    entry(graph, root, "module").ok_or_else(|| {
        Error::unsupported("pipeline parallelism, with the module in other files, is not supported")
    })
}

/// Returns an error if the model states declare tensor or expert parallelism.
fn check_alone(graph: &Graph, root: ValueId) -> Result<()> {
    if let Some(size) =
        entry(graph, root, "mp_world_size").and_then(|size| graph.int(size)).filter(|&size| size > 1)
    {
        return Err(Error::unsupported("tensor parallelism is not supported")
            .expected("mp_world_size 1")
            .found(size));
    }
    let is_empty = |value: ValueId| {
        graph.sequence(value).is_some_and(|items| items.iter().all(|&item| graph.int(item) == Some(0)))
    };
    match ["num_experts", "ds_autoep_layers", "autoep_layers"]
        .into_iter()
        .find(|key| entry(graph, root, key).is_some_and(|value| !is_empty(value)))
    {
        Some(key) => {
            let error = Error::unsupported("mixtures of experts are not supported");
            Err(error.expected(format!("no {key}")))
        }
        None => Ok(()),
    }
}

/// Parses a dict that maps names to shapes.
fn shapes(
    collector: &mut Collector<'_>,
    graph: &Graph,
    value: ValueId,
    what: &str,
) -> Result<Vec<NamedShape>> {
    let shaped = |(name, shape): (ValueId, ValueId)| {
        let name = graph.text(name).ok_or_else(|| unexpected_value(what, "names that are strings"))?;
        let shape = counts(graph, shape).ok_or_else(|| unexpected_value(what, "torch.Size").tensor(name))?;
        let shape = collector.shape(shape).map_err(|error| error.tensor(name))?;
        Ok((collector.budget.name(name)?, shape))
    };
    mapping(graph, value, what)?.into_iter().map(shaped).collect()
}

pub(crate) fn mapping(graph: &Graph, value: ValueId, what: &str) -> Result<Vec<(ValueId, ValueId)>> {
    debug_assert_ne!(*graph.value(value), Value::None, "the caller asked");
    graph.entries(value).ok_or_else(|| unexpected_value(what, "a dict"))
}
