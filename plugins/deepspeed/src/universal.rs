//! Selects the tensors in a universal checkpoint. Such a checkpoint stores each whole parameter in
//! its own files, so it does not depend on the number of ranks.

use crate::collector::{Collector, entry};
use crate::model_states;
use crate::optimizer_states::{OptimizerValue, kept_value};
use crate::rank_files::{RankFiles, list};
use crate::ranks::width;
use crate::selected::{Elements, SelectedTensors};
use crate::split_vector::SplitVector;
use crate::stages::{add_shared, add_untrained};
use tensorferry_sdk::{Error, Result, element_count};
use tensorferry_torch_file::{Location, ObjectFile};

/// The file that contains a parameter's weights.
const WEIGHTS: &str = "fp32.pt";
const SUFFIX: &str = ".pt";

/// Selects the weights, with the names and order of the original run.
pub(crate) fn weights(collector: &mut Collector<'_>, files: &RankFiles) -> Result<SelectedTensors> {
    let model = model_states::read(collector, files.first_model()?)?;
    let mut selected = SelectedTensors::default();
    add_untrained(collector, files, &model, files.models(), &mut selected)?;
    for (name, shape) in model.groups.iter().flatten() {
        let file = format!("{}{WEIGHTS}", folder(files, name));
        let (kept, is_cut) = collector.read(&file, parameter).map_err(|error| error.tensor(name))?;
        let OptimizerValue::Tensor(location) = kept else {
            return Err(Error::malformed("the file does not contain a tensor").file(file).tensor(name));
        };
        let elements = reshaped(location, shape, is_cut);
        selected.add(name, elements.map_err(|error| error.file(file).tensor(name))?);
    }
    add_shared(&model, &mut selected);
    Ok(selected)
}

/// Selects the optimizer's state: `<parameter>.exp_avg` and so on.
pub(crate) fn optimizer(collector: &mut Collector<'_>, files: &RankFiles) -> Result<SelectedTensors> {
    let model = model_states::read(collector, files.first_model()?)?;
    let mut selected = SelectedTensors::default();
    for (name, shape) in model.groups.iter().flatten() {
        let folder = folder(files, name);
        for file in list(collector.source, &folder).map_err(|error| error.tensor(name))? {
            let key = file.get(folder.len()..).and_then(|file| file.strip_suffix(SUFFIX));
            let Some(key) = key.filter(|_| !file.ends_with(&format!("/{WEIGHTS}"))) else { continue };
            let (kept, is_cut) = collector.read(&file, parameter).map_err(|error| error.tensor(name))?;
            let full = format!("{name}.{key}");
            match kept {
                OptimizerValue::Tensor(location) if !location.shape.is_empty() => {
                    let elements = reshaped(location, shape, is_cut);
                    selected.add(&full, elements.map_err(|error| error.file(&file).tensor(&full))?);
                }
                other => selected.add_kept(&full, &other),
            }
        }
    }
    Ok(selected)
}

fn folder(files: &RankFiles, parameter: &str) -> String {
    format!("{}zero/{parameter}/", files.folder)
}

/// Reads the tensor or number in one of a parameter's files. The file contains either the value
/// itself, or a dict with the value under the key `param`. Also returns whether the padding rows of
/// the vocabulary were removed from the tensor.
fn parameter(collector: &mut Collector<'_>, object: &ObjectFile) -> Result<(OptimizerValue, bool)> {
    let (graph, root) = (object.graph(), object.root());
    if graph.entries(root).is_none() {
        return Ok((kept_value(collector, object, root)?, false));
    }
    let value = entry(graph, root, "param").ok_or_else(|| Error::malformed("the file has no param"))?;
    let is_cut = entry(graph, root, "vocab_tensor").and_then(|flag| graph.bool(flag)).unwrap_or(false);
    Ok((kept_value(collector, object, value)?, is_cut))
}

/// Returns a tensor with the shape of its parameter. Reshapes vectors, which stage 3 saves instead
/// of tensors.
fn reshaped(location: Location, shape: &[u64], is_cut: bool) -> Result<Elements> {
    let is_cut = || is_cut && location.shape.len() == shape.len() && location.shape[1..] == shape[1..];
    if location.shape == shape || is_cut() {
        return Ok(Elements::View(location));
    }
    let len = element_count(shape)?;
    if location.shape != [len] {
        return Err(Error::malformed("a parameter's shape does not match the model states")
            .expected(format!("{shape:?}"))
            .found(format!("{:?}", location.shape)));
    }
    let mut vector = SplitVector::new(width(location.dtype));
    vector.push(&location, len)?;
    let runs = vector.range(0, len).unwrap_or_default();
    Ok(Elements::Split { dtype: location.dtype, shape: shape.to_vec(), runs })
}
