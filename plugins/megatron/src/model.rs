//! Collects the parameters of the whole model. Renames the ranks' parameters so that layers and
//! experts are numbered across all ranks.

use crate::args::Args;
use crate::rank_file::RankFile;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tensorferry_megatron_model::{GridSize, Rank, expert, is_counted, numbered};
use tensorferry_sdk::{Error, Result};
use tensorferry_torch_file::Location;

/// The tensor ranks with the same pipeline rank and expert rank, for one virtual stage. Virtual
/// stages are numbered in the order of their layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    virtual_stage: u64,
    pub(crate) stage: u64,
    pub(crate) expert: u64,
}

impl Group {
    pub(crate) fn rank(self, tensor: u64) -> Rank {
        Rank { stage: self.stage, expert: self.expert, tensor }
    }
}

/// A parameter of the model. It consists of each tensor rank's part, in each group that contains
/// the parameter.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) is_expert: bool,
    groups: BTreeMap<Group, BTreeMap<u64, Location>>,
}

impl Parameter {
    /// Returns the groups that contain the parameter, each with the parts of its tensor ranks. The
    /// parts of the first group are used. The parts of the other groups are copies.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (Group, Vec<&Location>)> {
        self.groups.iter().map(|(&group, parts)| (group, parts.values().collect()))
    }
}

/// Returns the model's parameters, in the order of the virtual stages.
pub(crate) fn parameters(
    size: GridSize,
    files: &BTreeMap<Rank, RankFile>,
    args: &Args,
) -> Result<Vec<Parameter>> {
    let named = |rank: &Rank| size.folder(*rank);
    let chunks = files.values().next().map_or(0, |file| file.chunks.len());
    if let Some((rank, file)) = files.iter().find(|(_, file)| file.chunks.len() != chunks) {
        return Err(Error::malformed("a rank and the first rank have different numbers of virtual stages")
            .file(named(rank))
            .expected(chunks)
            .found(file.chunks.len()));
    }
    let mut model = Collected::default();
    let mut layers_before: HashMap<String, u64> = HashMap::new();
    for chunk in 0..chunks {
        for stage in 0..size.stages {
            let virtual_stage = chunk as u64 * size.stages + stage;
            let of_stage = files.iter().filter(|(rank, _)| rank.stage == stage);
            let mut counted = None;
            for (rank, file) in of_stage {
                let part = &file.chunks[chunk];
                let layers = layers(part).map_err(|error| error.file(named(rank)))?;
                let experts =
                    experts_before(size, *rank, args, part).map_err(|error| error.file(named(rank)))?;
                let group = Group { virtual_stage, stage, expert: rank.expert };
                for (name, location) in part {
                    let (name, is_expert) = global_name(name, &layers_before, experts);
                    let added = model.add(name, is_expert, group, rank.tensor, location);
                    added.map_err(|error| error.file(named(rank)))?;
                }
                counted.get_or_insert(layers);
            }
            for (stack, count) in counted.unwrap_or_default() {
                *layers_before.entry(stack).or_default() += count;
            }
        }
    }
    check_layers(&layers_before, args)?;
    model.parameters.iter().try_for_each(|parameter| check_complete(parameter, size))?;
    Ok(model.parameters)
}

#[derive(Default)]
struct Collected {
    parameters: Vec<Parameter>,
    places: HashMap<String, usize>,
}

impl Collected {
    fn add(
        &mut self,
        name: String,
        is_expert: bool,
        group: Group,
        tensor: u64,
        part: &Location,
    ) -> Result<()> {
        let place = *self.places.entry(name.clone()).or_insert(self.parameters.len());
        if place == self.parameters.len() {
            self.parameters.push(Parameter { name, is_expert, groups: BTreeMap::new() });
        }
        let parameter = &mut self.parameters[place];
        match parameter.groups.entry(group).or_default().insert(tensor, part.clone()) {
            None => Ok(()),
            Some(_) => Err(Error::malformed("two parameters have this name").tensor(&parameter.name)),
        }
    }
}

/// Returns the number of layers in each of a rank's stacks.
fn layers(part: &[(String, Location)]) -> Result<HashMap<String, u64>> {
    let mut stacks: HashMap<&str, BTreeSet<u64>> = HashMap::new();
    for (stack, number, _) in part.iter().filter_map(|(name, _)| numbered(name, "layers")) {
        stacks.entry(stack).or_default().insert(number);
    }
    let count = |(stack, numbers): (&str, BTreeSet<u64>)| match numbers.iter().zip(0..).find(|(a, b)| *a != b)
    {
        None => Ok((stack.to_owned(), numbers.len() as u64)),
        Some((found, expected)) => Err(Error::malformed(format!("a gap in the layers of {stack}"))
            .expected(format!("layer {expected} (each stage counts from 0)"))
            .found(format!("layer {found}"))),
    };
    stacks.into_iter().map(count).collect()
}

/// Returns the number of experts on the expert ranks before this rank.
fn experts_before(size: GridSize, rank: Rank, args: &Args, part: &[(String, Location)]) -> Result<u64> {
    if rank.expert == 0 {
        return Ok(0);
    }
    let here = part.iter().filter_map(|(name, _)| Some(expert(name)?.1 + 1)).max().unwrap_or(0);
    let local = match args.count("num_experts") {
        Some(all) if all % size.experts == 0 => all / size.experts,
        Some(all) => {
            return Err(Error::malformed("the experts cannot be divided evenly among the ranks")
                .expected(format!("a multiple of {}", size.experts))
                .found(all));
        }
        None => here,
    };
    if here > local {
        return Err(Error::malformed("a rank has more experts than its share").expected(local).found(here));
    }
    local
        .checked_mul(rank.expert)
        .ok_or_else(|| Error::malformed("the number of experts does not fit in 64 bits"))
}

/// Returns the name of a parameter in the whole model, and whether the parameter is part of an
/// expert.
fn global_name(name: &str, layers_before: &HashMap<String, u64>, experts_before: u64) -> (String, bool) {
    let mut global = match numbered(name, "layers") {
        Some((stack, number, after)) => {
            let before = layers_before.get(stack).copied().unwrap_or(0);
            format!("{stack}.{}.{after}", before.saturating_add(number))
        }
        None => name.to_owned(),
    };
    let renamed = expert(&global)
        .map(|(before, number, after)| format!("{before}{}{after}", experts_before.saturating_add(number)));
    let is_expert = renamed.is_some();
    if let Some(renamed) = renamed {
        global = renamed;
    }
    (global, is_expert)
}

/// Checks that the number of layers matches the arguments.
fn check_layers(layers: &HashMap<String, u64>, args: &Args) -> Result<()> {
    let counted: Vec<_> = layers.iter().filter(|(stack, _)| is_counted(stack)).collect();
    match (&*counted, args.count("num_layers")) {
        ([(stack, found)], Some(expected)) if **found != expected => {
            Err(Error::malformed(format!("the number of {stack} in the ranks differs from the arguments"))
                .expected(expected)
                .found(found))
        }
        _ => Ok(()),
    }
}

fn check_complete(parameter: &Parameter, size: GridSize) -> Result<()> {
    let groups: Vec<Group> = parameter.groups.keys().copied().collect();
    let mut stages: Vec<Group> = groups.iter().map(|&group| Group { expert: 0, ..group }).collect();
    stages.dedup();
    for stage in stages {
        // The parameters of an expert are on only one of the expert ranks. All other parameters are
        // on every expert rank.
        let experts =
            groups.iter().filter(|group| Group { expert: 0, ..**group } == stage).map(|group| group.expert);
        let experts: Vec<u64> =
            if parameter.is_expert { experts.collect() } else { (0..size.experts).collect() };
        for expert in experts {
            let group = Group { expert, ..stage };
            let parts = parameter.groups.get(&group);
            let has = |tensor: &u64| parts.is_some_and(|parts| parts.contains_key(tensor));
            if let Some(tensor) = (0..size.tensor).find(|tensor| !has(tensor)) {
                return Err(Error::malformed("a rank lacks a parameter that other ranks have")
                    .tensor(&parameter.name)
                    .file(size.folder(group.rank(tensor))));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_and_experts_are_numbered_over_all_ranks() {
        let before = HashMap::from([("decoder.layers".to_owned(), 2)]);
        let name = |name| global_name(name, &before, 4);
        assert_eq!(name("decoder.layers.1.a.weight"), ("decoder.layers.3.a.weight".to_owned(), false));
        assert_eq!(name("mtp.layers.0.a"), ("mtp.layers.0.a".to_owned(), false));
        assert_eq!(name("decoder.layers.x.a"), ("decoder.layers.x.a".to_owned(), false));
        let local = "decoder.layers.0.mlp.experts.local_experts.1.linear_fc1.weight";
        assert_eq!(
            name(local),
            ("decoder.layers.2.mlp.experts.local_experts.5.linear_fc1.weight".to_owned(), true)
        );
        let grouped = "decoder.layers.0.mlp.experts.linear_fc2.weight3";
        assert_eq!(name(grouped), ("decoder.layers.2.mlp.experts.linear_fc2.weight7".to_owned(), true));
        assert_eq!(name("sublayers.0.a"), ("sublayers.0.a".to_owned(), false));
    }
}
