//! The step `tie` gives a tensor a second name, and `untie` creates a separate tensor for each
//! name. Tensors of the same dtype and shape are tied if they use the same bytes of a storage.
//! `tie` therefore creates a second view of a storage. `untie` replaces a view with a view of a
//! different storage that contains the same bytes.

use super::pattern::{BESIDE, NamePattern, Template};
use super::rebuild::{StepTensor, rebuild, unchanged};
use super::rename::check_collisions;
use super::selector::Selector;
use super::signature::{ArgumentSpec, CheckedSpec, Key, Signature};
use super::tensor_step::{Effects, TensorAction, TensorStep};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tensorferry_sdk::{Catalog, Data, Error, Loss, LossKind, Result, StorageId, Tensor, TensorId};

pub(super) static TIE: Signature = Signature {
    name: "tie",
    summary: "give tensors a second name",
    details: "A tensor that already has this name, dtype and shape gets the values of the first tensor; its own\n\
              values are a loss, unless both are tied already.",
    argument: ArgumentSpec::Required("REGEX", "the tensors; the second name replaces the match"),
    keys: &[Key::one("to", "TEMPLATE", "the replacement"), BESIDE],
    selects: true,
    examples: &[r"tie:^(.*)\.wte\.weight$,to=$1.lm_head.weight"],
};

pub(super) static UNTIE: Signature = Signature {
    name: "untie",
    summary: "make tied tensors independent",
    details: "The selected tensors are untied from the others and from each other.",
    argument: ArgumentSpec::Optional("GLOB", "names to untie, as in where="),
    keys: &[],
    selects: true,
    examples: &["untie", "untie:lm_head.weight"],
};

pub(super) fn tie(spec: &CheckedSpec<'_>) -> Result<TensorAction> {
    let pattern = NamePattern::of(spec)?;
    let to = Template::parse(spec.required("to")?, &pattern.regex, false)?;
    Ok(Box::new(Tie { pattern, to }))
}

pub(super) fn untie(spec: &CheckedSpec<'_>) -> Result<TensorAction> {
    Ok(Box::new(Untie { selector: Selector::of(spec, spec.argument())? }))
}

#[derive(Debug)]
struct Tie {
    pattern: NamePattern,
    to: Template,
}

#[derive(Debug)]
struct Untie {
    selector: Selector,
}

impl TensorStep for Tie {
    fn apply(&self, catalog: Catalog, effects: &mut Effects) -> Result<Catalog> {
        let matches = self.pattern.on(&catalog)?;
        let mut tensors: Vec<StepTensor> = unchanged(&catalog).collect();
        let places: HashMap<&str, usize> = catalog
            .tensors()
            .iter()
            .enumerate()
            .map(|(place, tensor)| (tensor.name.as_str(), place))
            .collect();
        let mut names = Vec::new();
        for tensor in catalog.tensors().iter().filter(|tensor| matches.has(tensor)) {
            let name = self.pattern.rewrite(&tensor.name, &self.to, 0);
            if name == tensor.name {
                continue;
            }
            effects.touched += 1;
            let second = Tensor { name: name.clone(), ..tensor.clone() };
            match places.get(name.as_str()) {
                None => tensors.push(StepTensor { old: None, tensor: second }),
                Some(&place) => {
                    let own = &mut tensors[place].tensor;
                    check_alike(tensor, own)?;
                    if own.data != tensor.data {
                        let why =
                            format!("replaced by the values of {:?}, to which it is now tied", tensor.name);
                        effects.losses.push(Loss::new(LossKind::Tensor, &name, why));
                    }
                    own.data = tensor.data.clone();
                }
            }
            names.push((tensor.name.as_str(), name));
        }
        check_collisions(names.iter().map(|(old, new)| (*old, new.as_str())))?;
        rebuild(catalog, tensors, effects)
    }
}

fn check_alike(first: &Tensor, second: &Tensor) -> Result<()> {
    if (first.dtype, &first.shape) == (second.dtype, &second.shape) {
        return Ok(());
    }
    Err(Error::usage(format!("cannot be tied to {:?}, which has a different dtype or shape", first.name))
        .tensor(&second.name)
        .expected(format!("{:?}", first.shape))
        .found(format!("{:?}", second.shape)))
}

impl TensorStep for Untie {
    fn apply(&self, catalog: Catalog, effects: &mut Effects) -> Result<Catalog> {
        let selected = self.selector.on(&catalog)?;
        let mut groups: BTreeMap<TensorId, Vec<usize>> = BTreeMap::new();
        for (place, first) in catalog.ties().into_iter().enumerate() {
            groups.entry(first).or_default().push(place);
        }
        let mut leaving: Vec<usize> = Vec::new();
        for members in groups.into_values().filter(|members| members.len() > 1) {
            let some = members.iter().filter(|place| selected.has(&catalog.tensors()[**place]));
            let some: Vec<usize> = some.copied().collect();
            // If all tensors of a tie are selected, the first tensor keeps its storage.
            leaving.extend(some.iter().skip(usize::from(some.len() == members.len())));
        }
        effects.touched += leaving.len();
        let (mut wanted, mut ranges) = (Vec::new(), Vec::new());
        for &place in &leaving {
            let storages: BTreeSet<StorageId> = catalog.tensors()[place].storages().collect();
            ranges.push(wanted.len()..wanted.len() + storages.len());
            wanted.extend(storages);
        }
        let mut tensors: Vec<StepTensor> = unchanged(&catalog).collect();
        let limits = catalog.limits().clone();
        let (catalog, again) = catalog.with_copied_storages(&wanted, &limits)?;
        for (place, range) in leaving.into_iter().zip(ranges) {
            let new: HashMap<StorageId, StorageId> =
                wanted[range.clone()].iter().copied().zip(again[range].iter().copied()).collect();
            match &mut tensors[place].tensor.data {
                Data::Empty => {}
                Data::Whole { storage, .. } => *storage = new[storage],
                Data::Blocks(blocks) => {
                    blocks.iter_mut().for_each(|block| block.storage = new[&block.storage]);
                }
                Data::Grid(grid) => **grid = grid.map_storages(|storage| new[&storage]),
            }
        }
        rebuild(catalog, tensors, effects)
    }
}
