//! The step `concat` joins tensors along an existing dimension, and `stack` joins tensors along a
//! new dimension.

use super::pattern::{BESIDE, INDEX, NamePattern, Template};
use super::rebuild::{StepTensor, rebuild};
use super::rename::check_collisions;
use super::signature::{ArgumentSpec, CheckedSpec, Key, Signature};
use super::spec::Field;
use super::split::{AXIS, PARTS};
use super::tensor_step::{Effects, TensorAction, TensorStep};
use super::view::{axis_of, info_of, merge, with_axis};
use std::collections::{BTreeMap, HashMap, HashSet};
use tensorferry_sdk::{Catalog, Data, Error, Result, Tensor, TensorId};

const PARTS_ARGUMENT: ArgumentSpec =
    ArgumentSpec::Required("REGEX", "finds the first parts, or all parts; other names replace the match");
const WITH: Key = Key::any("with", "TEMPLATE", "the replacement in the second part's name, the third's, ...");
const TO: Key = Key::one("to", "TEMPLATE", "the replacement in the joined tensor's name");
const SIZES: Key =
    Key::optional("sizes", "NxN...|any", "the lengths of the parts, such as 4096x1024x1024, or any");

pub(super) static CONCAT: Signature = Signature {
    name: "concat",
    summary: "join tensors along a dimension",
    details: "The expression finds the first parts, and with= names the others. Or it finds all parts: then the\n\
              group (?<i>\\d+) is the part's number from 0, and parts with the same new name are joined.\n\
              All parts must have the same length, unless sizes= is given.",
    argument: PARTS_ARGUMENT,
    keys: &[WITH, TO, AXIS, SIZES, PARTS, BESIDE],
    selects: true,
    examples: &[r"concat:\.q\.,with=.k.,with=.v.,to=.qkv.", r"concat:\.w_(?<i>\d+)$,to=.w,axis=-1"],
};

pub(super) static STACK: Signature = Signature {
    name: "stack",
    summary: "join tensors along a new dimension",
    details: "Joins experts into one tensor; see concat. All parts must have the same shape.",
    argument: PARTS_ARGUMENT,
    keys: &[WITH, TO, AXIS, PARTS, BESIDE],
    selects: true,
    examples: &[r"stack:\.experts\.(?<i>\d+)\.(w\d)$,to=.experts.$2"],
};

/// The expected lengths of the parts along the dimension.
#[derive(Debug, PartialEq, Eq)]
enum Sizes {
    Equal,
    Any,
    Listed(Vec<u64>),
}

#[derive(Debug)]
struct Concat {
    pattern: NamePattern,
    /// The index of the regular expression's group that matches a part's number, if parts are
    /// numbered.
    index: Option<usize>,
    with: Vec<Template>,
    to: Template,
    axis: Option<i64>,
    sizes: Sizes,
    parts: Option<usize>,
    stacks: bool,
}

pub(super) fn make(spec: &CheckedSpec<'_>, stacks: bool) -> Result<TensorAction> {
    let pattern = NamePattern::of(spec)?;
    let template = |field: &Field| Template::parse(field, &pattern.regex, false);
    let with: Vec<Template> = spec.all("with").map(template).collect::<Result<_>>()?;
    let to = template(spec.required("to")?)?;
    let index = pattern.regex.capture_names().position(|name| name == Some(INDEX));
    if index.is_some() != with.is_empty() {
        let why = "expected either with= for each further part, or a group (?<i>\\d+) for the part's number";
        return Err(spec.required_argument()?.error(why));
    }
    let sizes = match spec.one("sizes") {
        None => Sizes::Equal,
        Some(field) if field.text == "any" => Sizes::Any,
        Some(field) => Sizes::Listed(field.numbers()?),
    };
    let (parts, axis) = (spec.number("parts")?, spec.number("axis")?);
    Ok(Box::new(Concat { pattern, index, with, to, axis, sizes, parts, stacks }))
}

impl Concat {
    /// Returns the name and the parts of each joined tensor. The joined tensors have the order of
    /// their first parts.
    fn groups(&self, catalog: &Catalog) -> Result<Vec<(String, Vec<TensorId>)>> {
        let matches = self.pattern.on(catalog)?;
        let tensors = || (0..).map(TensorId).zip(catalog.tensors());
        let first = tensors().filter(|(_, tensor)| matches.has(tensor));
        match self.index {
            Some(index) => self.numbered(first, index),
            None => {
                let ids: HashMap<&str, TensorId> =
                    tensors().map(|(id, tensor)| (tensor.name.as_str(), id)).collect();
                let group = |(id, tensor): (TensorId, &Tensor)| {
                    let mut parts = vec![id];
                    for template in &self.with {
                        let name = self.pattern.rewrite(&tensor.name, template, 0);
                        let part = ids.get(name.as_str()).copied();
                        let part = part.ok_or_else(|| {
                            Error::usage(format!("no tensor {name:?}, which would be the next part"))
                                .tensor(&tensor.name)
                        })?;
                        parts.push(part);
                    }
                    Ok((self.pattern.rewrite(&tensor.name, &self.to, 0), parts))
                };
                first.map(group).collect()
            }
        }
    }

    fn numbered<'a>(
        &self,
        tensors: impl Iterator<Item = (TensorId, &'a Tensor)>,
        index: usize,
    ) -> Result<Vec<(String, Vec<TensorId>)>> {
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut groups: Vec<(String, BTreeMap<u64, TensorId>)> = Vec::new();
        for (id, tensor) in tensors {
            let captures = self.pattern.regex.captures(&tensor.name);
            let number = captures.and_then(|captures| captures.get(index)?.as_str().parse().ok());
            let number: u64 = number
                .ok_or_else(|| Error::usage("the part's number is not a number").tensor(&tensor.name))?;
            let whole = self.pattern.rewrite(&tensor.name, &self.to, 0);
            let place = *places.entry(whole.clone()).or_insert(groups.len());
            if place == groups.len() {
                groups.push((whole, BTreeMap::new()));
            }
            if groups[place].1.insert(number, id).is_some() {
                return Err(Error::usage(format!("two parts have the number {number}")).tensor(&tensor.name));
            }
        }
        let complete = |(name, parts): (String, BTreeMap<u64, TensorId>)| {
            let missing = (0..).zip(parts.keys()).find(|(number, found)| number != *found);
            match missing {
                Some((number, _)) => Err(Error::usage(format!("part {number} is missing")).tensor(&name)),
                None => Ok((name, parts.into_values().collect())),
            }
        };
        groups.into_iter().map(complete).collect()
    }

    fn whole(&self, catalog: &Catalog, name: String, ids: &[TensorId]) -> Result<Tensor> {
        let parts: Vec<&Tensor> = ids.iter().filter_map(|id| catalog.tensor(*id)).collect();
        let Some(first) = parts.first() else { return Err(Error::usage("no parts found").tensor(name)) };
        if let Some(expected) = self.parts.filter(|expected| *expected != parts.len()) {
            return Err(Error::usage("wrong number of parts")
                .tensor(name)
                .expected(expected)
                .found(parts.len()));
        }
        let info = info_of(catalog, first)?;
        let axis = axis_of(self.axis, first.shape.len() + usize::from(self.stacks), first)?;
        self.check_alike(&parts, axis)?;
        let mut shape = first.shape.clone();
        if self.stacks {
            shape.insert(axis, 1);
        }
        let mut blocks = Vec::with_capacity(parts.len());
        let mut start = 0_u64;
        for part in &parts {
            for block in part.blocks() {
                let mut block = if self.stacks { with_axis(block, axis) } else { block };
                block.region.origin[axis] += start;
                blocks.push(block);
            }
            let len = if self.stacks { 1 } else { part.shape[axis] };
            let end = start.checked_add(len);
            start = end.ok_or_else(|| Error::usage("the joined tensor is too long").tensor(&part.name))?;
        }
        shape[axis] = start;
        let data = Data::Blocks(merge(blocks, axis, &info));
        Ok(Tensor { name, shape, data, attributes: BTreeMap::new(), ..(*first).clone() })
    }

    /// Checks that all parts have the same dtype, and the same shape except in the joined
    /// dimension.
    fn check_alike(&self, parts: &[&Tensor], axis: usize) -> Result<()> {
        let first = parts[0];
        for (number, part) in parts.iter().enumerate() {
            let mut shape = part.shape.clone();
            let has_rank = shape.len() == first.shape.len();
            let mut len = None;
            if !self.stacks && has_rank {
                len = Some(std::mem::replace(&mut shape[axis], first.shape[axis]));
            }
            let expected = match &self.sizes {
                Sizes::Equal => first.shape.get(axis).copied(),
                Sizes::Any => len,
                Sizes::Listed(sizes) => sizes.get(number).copied(),
            };
            if part.dtype != first.dtype || shape != first.shape {
                return Err(Error::usage(format!("the part differs from the first part, {:?}", first.name))
                    .tensor(&part.name)
                    .expected(format!("shape {:?} and the same dtype", first.shape))
                    .found(format!("{:?}", part.shape)));
            }
            if !self.stacks && len != expected {
                return Err(Error::usage(
                    "the part has a different length: pass sizes= with each length, or sizes=any",
                )
                .tensor(&part.name)
                .expected(expected.map_or_else(|| "no such part".to_owned(), |len| len.to_string()))
                .found(format!("{:?}", part.shape)));
            }
        }
        match &self.sizes {
            Sizes::Listed(sizes) if sizes.len() != parts.len() => {
                Err(Error::usage("the number of parts differs from the number of lengths in sizes=")
                    .tensor(&first.name)
                    .found(parts.len()))
            }
            _ => Ok(()),
        }
    }
}

impl TensorStep for Concat {
    fn apply(&self, catalog: Catalog, effects: &mut Effects) -> Result<Catalog> {
        let mut wholes: HashMap<TensorId, Tensor> = HashMap::new();
        let mut used: HashSet<TensorId> = HashSet::new();
        for (name, ids) in self.groups(&catalog)? {
            if let Some(twice) = ids.iter().find(|id| !used.insert(**id)) {
                let name = catalog.tensor(*twice).map(|tensor| tensor.name.clone()).unwrap_or_default();
                return Err(Error::usage("the tensor would be used as a part twice").tensor(name));
            }
            effects.touched += ids.len();
            ids.iter().filter_map(|id| catalog.tensor(*id)).for_each(|part| effects.leave_attributes(part));
            if let Some(&first) = ids.first() {
                wholes.insert(first, self.whole(&catalog, name, &ids)?);
            }
        }
        let mut tensors = Vec::with_capacity(catalog.tensors().len());
        let mut from = Vec::new();
        for (id, tensor) in (0..).map(TensorId).zip(catalog.tensors()) {
            let next = match wholes.remove(&id) {
                Some(whole) => StepTensor { old: None, tensor: whole },
                None if used.contains(&id) => continue,
                None => StepTensor::kept(id, tensor),
            };
            tensors.push(next);
            from.push(tensor.name.as_str());
        }
        check_collisions(from.into_iter().zip(tensors.iter().map(|new| new.tensor.name.as_str())))?;
        rebuild(catalog, tensors, effects)
    }
}
