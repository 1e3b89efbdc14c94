//! A universal checkpoint has each parameter whole, in files of its own, whatever the number of ranks.

use crate::answer::{Answer, Elements};
use crate::found::{Found, entry};
use crate::model_states;
use crate::optimizer_states::{Kept, kept_value};
use crate::rank_files::{RankFiles, list};
use crate::ranks::width;
use crate::spread::Spread;
use crate::stages::{add_shared, add_untrained};
use tensorferry_sdk::{Error, Result, element_count};
use tensorferry_torch_file::{Location, ObjectFile};

/// The file of a parameter's weights.
const WEIGHTS: &str = "fp32.pt";
const SUFFIX: &str = ".pt";

/// The weights, under the names and in the order of the run that they are of.
///
/// # Errors
/// Malformed, naming the file: one that is missing, or of another shape than the model states say.
pub(crate) fn weights(found: &mut Found<'_>, files: &RankFiles) -> Result<Answer> {
    let model = model_states::read(found, files.first_model()?)?;
    let mut answer = Answer::default();
    add_untrained(found, files, &model, files.models(), &mut answer)?;
    for (name, shape) in model.groups.iter().flatten() {
        let file = format!("{}{WEIGHTS}", folder(files, name));
        let (kept, is_cut) = found.read(&file, parameter).map_err(|error| error.tensor(name))?;
        let Kept::Tensor(location) = kept else {
            return Err(Error::malformed("it holds no tensor").file(file).tensor(name));
        };
        let elements = shaped(location, shape, is_cut);
        answer.add(name, elements.map_err(|error| error.file(file).tensor(name))?);
    }
    add_shared(&model, &mut answer);
    Ok(answer)
}

/// What the optimizer keeps: `<parameter>.exp_avg` and so on.
///
/// # Errors
/// As [`weights`].
pub(crate) fn optimizer(found: &mut Found<'_>, files: &RankFiles) -> Result<Answer> {
    let model = model_states::read(found, files.first_model()?)?;
    let mut answer = Answer::default();
    for (name, shape) in model.groups.iter().flatten() {
        let folder = folder(files, name);
        for file in list(found.source, &folder).map_err(|error| error.tensor(name))? {
            let key = file.get(folder.len()..).and_then(|file| file.strip_suffix(SUFFIX));
            let Some(key) = key.filter(|_| !file.ends_with(&format!("/{WEIGHTS}"))) else { continue };
            let (kept, is_cut) = found.read(&file, parameter).map_err(|error| error.tensor(name))?;
            let full = format!("{name}.{key}");
            match kept {
                Kept::Tensor(location) if !location.shape.is_empty() => {
                    let elements = shaped(location, shape, is_cut);
                    answer.add(&full, elements.map_err(|error| error.file(&file).tensor(&full))?);
                }
                other => answer.add_kept(&full, &other),
            }
        }
    }
    Ok(answer)
}

fn folder(files: &RankFiles, parameter: &str) -> String {
    format!("{}zero/{parameter}/", files.folder)
}

/// What a file holds: a dict with the tensor under `param`, or the tensor or number itself; and
/// whether rows that only filled up a vocabulary were cut off it.
fn parameter(found: &mut Found<'_>, object: &ObjectFile) -> Result<(Kept, bool)> {
    let (graph, root) = (object.graph(), object.root());
    if graph.entries(root).is_none() {
        return Ok((kept_value(found, object, root)?, false));
    }
    let value = entry(graph, root, "param").ok_or_else(|| Error::malformed("the file has no param"))?;
    let is_cut = entry(graph, root, "vocab_tensor").and_then(|flag| graph.bool(flag)).unwrap_or(false);
    Ok((kept_value(found, object, value)?, is_cut))
}

/// The tensor in its parameter's shape: stage 3's are saved as vectors.
fn shaped(location: Location, shape: &[u64], is_cut: bool) -> Result<Elements> {
    let is_cut = || is_cut && location.shape.len() == shape.len() && location.shape[1..] == shape[1..];
    if location.shape == shape || is_cut() {
        return Ok(Elements::View(location));
    }
    let len = element_count(shape)?;
    if location.shape != [len] {
        return Err(Error::malformed("a parameter has another shape than the model states say")
            .expected(format!("{shape:?}"))
            .found(format!("{:?}", location.shape)));
    }
    let mut vector = Spread::new(width(location.dtype));
    vector.push(&location, len)?;
    let runs = vector.range(0, len).unwrap_or_default();
    Ok(Elements::Spread { dtype: location.dtype, shape: shape.to_vec(), runs })
}
