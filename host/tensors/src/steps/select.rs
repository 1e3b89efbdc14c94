//! The step `select` keeps the selected tensors, and `drop` removes them. Tensors that the user
//! removes are not reported as a loss.

use super::rebuild::{rebuild, unchanged};
use super::selector::Selector;
use super::signature::{ArgumentSpec, CheckedSpec, Signature};
use super::tensor_step::{Effects, TensorAction, TensorStep};
use tensorferry_sdk::{Catalog, Error, Result};

pub(super) static SELECT: Signature = Signature {
    name: "select",
    summary: "keep some tensors",
    details: "It is an error if no tensor is left.",
    argument: ArgumentSpec::Optional("GLOB", "names to keep, as in where="),
    keys: &[],
    selects: true,
    examples: &[
        "select:encoder.*",
        "select,dtype=F32,min_size=1MiB",
        r"select,where_re=\.(weight|bias)$,not=head.*",
    ],
};

pub(super) static DROP: Signature = Signature {
    name: "drop",
    summary: "remove some tensors",
    details: "It is an error if no tensor is left, or if no key or glob selects tensors.",
    argument: ArgumentSpec::Optional("GLOB", "names to remove, as in where="),
    keys: &[],
    selects: true,
    examples: &["drop:*.num_batches_tracked", r"drop,where_re=(^|/)adam_[mv]$"],
};

#[derive(Debug)]
struct Select {
    selector: Selector,
    keeps: bool,
}

pub(super) fn make(spec: &CheckedSpec<'_>, keeps: bool) -> Result<TensorAction> {
    let selector = Selector::of(spec, spec.argument())?;
    if selector.is_all() {
        return Err(Error::usage("expected a glob after a colon, or a key such as where= or dtype="));
    }
    Ok(Box::new(Select { selector, keeps }))
}

impl TensorStep for Select {
    fn apply(&self, catalog: Catalog, effects: &mut Effects) -> Result<Catalog> {
        let selected = self.selector.on(&catalog)?;
        let tensors: Vec<_> =
            unchanged(&catalog).filter(|new| selected.has(&new.tensor) == self.keeps).collect();
        effects.touched += catalog.tensors().len() - tensors.len();
        if tensors.is_empty() {
            let found = catalog.tensors().first().map_or("no tensors", |tensor| &tensor.name);
            return Err(Error::usage("the step leaves no tensor").found(format!("names such as {found:?}")));
        }
        rebuild(catalog, tensors, effects)
    }
}
