//! The step `split` splits tensors along a dimension, and `unstack` splits tensors into slices
//! without that dimension.

use super::pattern::{BESIDE, NamePattern, Template};
use super::rebuild::{StepTensor, rebuild};
use super::rename::check_collisions;
use super::signature::{ArgumentSpec, CheckedSpec, Key, Signature};
use super::spec::Field;
use super::tensor_step::{Effects, TensorAction, TensorStep};
use super::view::{axis_of, cut, info_of, without_axis};
use std::collections::BTreeMap;
use tensorferry_sdk::{Catalog, Data, Error, Result, Tensor, TensorId};

const TO: Key = Key::some(
    "to",
    "TEMPLATE",
    "the replacement in a part's name: one for each part, or one with $i, the part's number",
);
const SIZES: Key = Key::optional("sizes", "NxN...", "the lengths of the parts, such as 4096x1024x1024");
pub(super) const AXIS: Key =
    Key::optional("axis", "N", "the dimension, from 0, or from -1 backwards [default: 0]");
pub(super) const PARTS: Key = Key::optional("parts", "N", "the number of parts, if $i numbers them");

pub(super) static SPLIT: Signature = Signature {
    name: "split",
    summary: "split tensors into parts",
    details: "Replaces every match of the expression in the names of the parts. All parts have the same length,\n\
              unless sizes= gives other lengths.",
    argument: ArgumentSpec::Required("REGEX", "the tensors; the names of the parts replace the match"),
    keys: &[TO, AXIS, SIZES, PARTS, BESIDE],
    selects: true,
    examples: &[
        r"split:\.qkv\.,to=.q.,to=.k.,to=.v.",
        r"split:\.qkv\.weight$,to=.q.weight,to=.k.weight,to=.v.weight,sizes=4096x1024x1024",
        r"split:\.w$,to=.w_$i,parts=8,axis=-1",
    ],
};

pub(super) static UNSTACK: Signature = Signature {
    name: "unstack",
    summary: "split tensors into slices",
    details: "Splits a stack of experts into one tensor per expert, without the dimension.",
    argument: ArgumentSpec::Required("REGEX", "the stacks; the names of the slices replace the match"),
    keys: &[TO, AXIS, PARTS, BESIDE],
    selects: true,
    examples: &[r"unstack:\.experts\.(w\d)$,to=.experts.$i.$1"],
};

/// The templates for the names of the parts.
#[derive(Debug)]
enum PartNames {
    /// One template for each part.
    Listed(Vec<Template>),
    /// A single template that contains the number of the part.
    Numbered(Template),
}

#[derive(Debug)]
struct Split {
    pattern: NamePattern,
    names: PartNames,
    axis: Option<i64>,
    sizes: Option<Vec<u64>>,
    parts: Option<u64>,
    unstacks: bool,
}

pub(super) fn make(spec: &CheckedSpec<'_>, unstacks: bool) -> Result<TensorAction> {
    let pattern = NamePattern::of(spec)?;
    let templates = spec.all("to").map(|field| Template::parse(field, &pattern.regex, true));
    let templates: Vec<Template> = templates.collect::<Result<_>>()?;
    let wrong = |why: &str| spec.required("to").map_or_else(|error| error, |field| field.error(why));
    let names = match <[Template; 1]>::try_from(templates) {
        Ok([one]) if one.has_index() => PartNames::Numbered(one),
        Ok(_) => return Err(wrong("expected to= for each part, or one to= with $i, the part's number")),
        Err(several) if several.iter().any(Template::has_index) => {
            return Err(wrong("$i numbers all parts: pass only one to="));
        }
        Err(several) => PartNames::Listed(several),
    };
    let sizes = spec.one("sizes").map(Field::numbers).transpose()?;
    let parts = spec.number("parts")?;
    let count = match &names {
        PartNames::Listed(templates) => Some(templates.len() as u64),
        PartNames::Numbered(_) => sizes.as_ref().map(|sizes| sizes.len() as u64),
    };
    if count.is_some_and(|count| {
        parts.is_some_and(|parts| parts != count)
            || sizes.as_ref().is_some_and(|sizes| sizes.len() as u64 != count)
    }) {
        return Err(wrong("to=, sizes= and parts= give different numbers of parts"));
    }
    let parts = parts.or(count);
    if parts == Some(0) || (parts.is_none() && !unstacks) {
        return Err(wrong("expected parts= or sizes= for the number of parts"));
    }
    let axis = spec.number("axis")?;
    Ok(Box::new(Split { pattern, names, axis, sizes, parts, unstacks }))
}

impl Split {
    /// Returns the end of each part along the dimension, in order.
    fn ends(&self, len: u64, tensor: &Tensor, max: u64) -> Result<Vec<u64>> {
        let wrong = |expected: String| {
            Error::usage("the parts do not add up to the whole")
                .tensor(&tensor.name)
                .expected(expected)
                .found(format!("{len} along the dimension of {:?}", tensor.shape))
        };
        if let Some(sizes) = &self.sizes {
            let mut end = Some(0_u64);
            let ends = sizes.iter().map(|size| {
                end = end.and_then(|end| end.checked_add(*size));
                end
            });
            let ends: Option<Vec<u64>> = ends.collect();
            return ends
                .filter(|ends| ends.last() == Some(&len))
                .ok_or_else(|| wrong(format!("parts of {sizes:?}")));
        }
        let parts = match self.parts {
            Some(parts) if self.unstacks && parts != len => return Err(wrong(format!("{parts} slices"))),
            Some(parts) => parts,
            None => len,
        };
        // The number of parts is limited, because a file can declare any length, and each part
        // becomes a tensor.
        if parts > max {
            return Err(Error::limit("too many parts").tensor(&tensor.name).found(parts));
        }
        if parts == 0 || !len.is_multiple_of(parts) {
            return Err(wrong(format!("a multiple of {parts}, or sizes= for different lengths")));
        }
        Ok((1..=parts).map(|part| len / parts * part).collect())
    }

    fn name(&self, tensor: &Tensor, number: usize) -> String {
        match &self.names {
            PartNames::Listed(templates) => match templates.get(number) {
                Some(template) => self.pattern.rewrite(&tensor.name, template, number),
                None => tensor.name.clone(),
            },
            PartNames::Numbered(template) => self.pattern.rewrite(&tensor.name, template, number),
        }
    }

    fn parts(&self, catalog: &Catalog, tensor: &Tensor) -> Result<Vec<Tensor>> {
        let info = info_of(catalog, tensor)?;
        let axis = axis_of(self.axis, tensor.shape.len(), tensor)?;
        let ends = self.ends(tensor.shape[axis], tensor, catalog.limits().tensors)?;
        let mut shape = tensor.shape.clone();
        let mut start = 0;
        let mut parts = Vec::with_capacity(ends.len());
        for (number, &end) in ends.iter().enumerate() {
            shape[axis] = end - start;
            start = end;
            let mut shape = shape.clone();
            if self.unstacks {
                shape.remove(axis);
            }
            parts.push(Tensor {
                name: self.name(tensor, number),
                shape,
                data: Data::Blocks(Vec::new()),
                attributes: BTreeMap::new(),
                ..tensor.clone()
            });
        }
        for block in tensor.blocks() {
            let (from, to) =
                (block.region.origin[axis], block.region.origin[axis] + block.region.shape[axis]);
            let first = ends.partition_point(|end| *end <= from);
            for number in first..ends.len() {
                let start = number.checked_sub(1).map_or(0, |before| ends[before]);
                if start >= to {
                    break;
                }
                let part =
                    cut(&block, axis, start, ends[number], &info).map_err(|e| e.tensor(&tensor.name))?;
                let part = if self.unstacks { without_axis(part, axis) } else { part };
                if let Data::Blocks(blocks) = &mut parts[number].data {
                    blocks.push(part);
                }
            }
        }
        Ok(parts)
    }
}

impl TensorStep for Split {
    fn apply(&self, catalog: Catalog, effects: &mut Effects) -> Result<Catalog> {
        let matches = self.pattern.on(&catalog)?;
        let mut tensors = Vec::with_capacity(catalog.tensors().len());
        let mut from = Vec::new();
        for (id, tensor) in (0..).map(TensorId).zip(catalog.tensors()) {
            if !matches.has(tensor) {
                from.push(tensor.name.as_str());
                tensors.push(StepTensor::kept(id, tensor));
                continue;
            }
            effects.touched += 1;
            effects.leave_attributes(tensor);
            for part in self.parts(&catalog, tensor)? {
                from.push(tensor.name.as_str());
                tensors.push(StepTensor { old: None, tensor: part });
            }
        }
        check_collisions(from.into_iter().zip(tensors.iter().map(|new| new.tensor.name.as_str())))?;
        rebuild(catalog, tensors, effects)
    }
}
