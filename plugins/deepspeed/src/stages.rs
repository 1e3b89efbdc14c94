//! Selects the tensors in a checkpoint of ZeRO stages 1 to 3, in DeepSpeed's order.

use crate::collector::Collector;
use crate::model_states::{self, ModelStates, NamedShape};
use crate::rank_files::RankFiles;
use crate::ranks::{Ranks, same_dtype, width};
use crate::selected::{Elements, SelectedTensors};
use crate::split_vector::SplitVector;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use tensorferry_sdk::{Error, LossKind, Result, element_count};
use tensorferry_torch_file::Location;

/// Selects all tensors in the module's state dict, in training precision.
pub(crate) fn module(collector: &mut Collector<'_>, files: &RankFiles) -> Result<SelectedTensors> {
    if files.is_partitioned {
        let error = Error::usage("stage 3 saves the module without its weights")
            .hint("pass -i state=fp32 to read the weights");
        return Err(error.file(files.first_model()?));
    }
    let model = model_states::read(collector, files.first_model()?)?;
    let mut selected = SelectedTensors::default();
    for (name, location) in model.module {
        selected.add(&name, Elements::View(location));
    }
    for name in &model.others {
        selected.lose(LossKind::State, name, "a value of the module that is not a tensor");
    }
    Ok(selected)
}

/// Selects the weights, like `zero_to_fp32.py`.
pub(crate) fn weights(collector: &mut Collector<'_>, files: &RankFiles) -> Result<SelectedTensors> {
    let model = model_states::read(collector, files.first_model()?)?;
    let ranks = Ranks::read(collector, files, false)?;
    let mut selected = SelectedTensors::default();
    add_untrained(collector, files, &model, ranks.count(), &mut selected)?;
    let joined = ranks.join(&model.groups, &ranks.weights())?;
    for (elements, (name, _)) in joined.into_iter().zip(model.groups.iter().flatten()) {
        selected.tensors.extend(elements.map(|elements| (name.clone(), Rc::new(elements))));
    }
    add_shared(&model, &mut selected);
    Ok(selected)
}

/// Selects the optimizer's state: `<parameter>.exp_avg` and so on.
pub(crate) fn optimizer(collector: &mut Collector<'_>, files: &RankFiles) -> Result<SelectedTensors> {
    let model = model_states::read(collector, files.first_model()?)?;
    let ranks = Ranks::read(collector, files, true)?;
    let mut joined = Vec::new();
    for key in ranks.vector_keys() {
        joined.push((key, ranks.join(&model.groups, &ranks.kept(key))?));
    }
    let mut selected = SelectedTensors::default();
    let mut index = 0;
    for (group, shapes) in model.groups.iter().enumerate() {
        for (name, _) in shapes {
            for (key, of_parameters) in &mut joined {
                if let Some(elements) = of_parameters[index].take() {
                    selected.add(&format!("{name}.{key}"), elements);
                }
            }
            for (key, kept) in ranks.of_whole_group(group) {
                selected.add_kept(&format!("{name}.{key}"), kept);
            }
            index += 1;
        }
    }
    Ok(selected)
}

/// Adds buffers and frozen parameters, and reports a loss for each parameter that is not in any
/// file.
pub(crate) fn add_untrained(
    collector: &mut Collector<'_>,
    files: &RankFiles,
    model: &ModelStates,
    ranks: u64,
    selected: &mut SelectedTensors,
) -> Result<()> {
    let buffers: HashSet<&str> = model.buffers.iter().map(String::as_str).collect();
    for (name, location) in model.module.iter().filter(|(name, _)| buffers.contains(name.as_str())) {
        selected.add(name, Elements::View(location.clone()));
    }
    let files_of_ranks = files.model(ranks)?;
    if !model.frozen.is_empty() {
        let mut fragments = Vec::with_capacity(files_of_ranks.len());
        for file in files_of_ranks {
            fragments.push(model_states::read_frozen(collector, file, &model.frozen)?);
        }
        for (index, shaped) in model.frozen.iter().enumerate() {
            let fragments: Vec<&Location> = fragments.iter().map(|rank| &rank[index]).collect();
            let elements = if files.is_partitioned {
                joined_fragments(shaped, &fragments)
            } else {
                whole(shaped, &fragments)
            };
            selected.add(&shaped.0, elements.map_err(|error| error.tensor(&shaped.0))?);
        }
    }
    let frozen = model.frozen.iter().map(|(name, _)| name.as_str());
    let trained = model.groups.iter().flatten().map(|(name, _)| name.as_str());
    let shared = model.shared.iter().map(|(alias, _)| alias.as_str());
    let known: HashSet<&str> = buffers.into_iter().chain(frozen).chain(trained).chain(shared).collect();
    for (name, _) in model.module.iter().filter(|(name, _)| !known.contains(name.as_str())) {
        let why = match files.is_partitioned {
            true => "a frozen parameter that was not saved",
            false => "a frozen parameter, which zero_to_fp32.py also leaves out; -i state=model keeps it",
        };
        selected.lose(LossKind::Tensor, name, why);
    }
    for name in &model.others {
        selected.lose(LossKind::State, name, "a value of the module that is not a tensor");
    }
    Ok(())
}

/// Adds the additional names of selected tensors.
pub(crate) fn add_shared(model: &ModelStates, selected: &mut SelectedTensors) {
    let known: HashMap<String, Rc<Elements>> = selected.tensors.iter().cloned().collect();
    for (alias, source) in &model.shared {
        match known.get(source) {
            Some(elements) => selected.tie(alias, elements),
            None => {
                let why = "an additional name for a frozen parameter that was not saved";
                selected.lose(LossKind::Tensor, alias, why);
            }
        }
    }
}

/// Returns a frozen parameter in stages 1 and 2, where a single fragment contains the whole tensor.
fn whole((_, shape): &NamedShape, fragments: &[&Location]) -> Result<Elements> {
    match fragments {
        [fragment] if fragment.shape == *shape => Ok(Elements::View((*fragment).clone())),
        _ => Err(Error::malformed("a frozen parameter's shape does not match frozen_param_shapes")
            .expected(format!("{shape:?}"))
            .found(fragments.first().map_or_else(String::new, |fragment| format!("{:?}", fragment.shape)))),
    }
}

/// Joins all ranks' fragments of a frozen parameter, without the padding in the last fragment.
fn joined_fragments((_, shape): &NamedShape, fragments: &[&Location]) -> Result<Elements> {
    let len = element_count(shape)?;
    let share = len.div_ceil((fragments.len() as u64).max(1));
    let dtype = same_dtype(fragments.iter().copied())?;
    let mut spread = SplitVector::new(width(dtype));
    if len > 0 {
        for fragment in fragments {
            spread.push(fragment, share.min(len - spread.len()))?;
        }
    }
    let runs = spread.range(0, len).ok_or_else(|| Error::malformed("the ranks' fragments are too short"))?;
    Ok(Elements::Split { dtype, shape: shape.clone(), runs })
}
