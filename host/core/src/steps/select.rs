//! `select` keeps the tensors that are selected, `drop` leaves them out. What a user asks to leave out is
//! no loss.

use super::kind::{Argument, Given, Kind};
use super::rebuild::{rebuild, unchanged};
use super::selector::Selector;
use super::{Action, Said, TensorStep};
use tensorferry_sdk::{Catalog, Error, Result};

pub(super) static SELECT: Kind = Kind {
    name: "select",
    summary: "keep some tensors",
    details: "That nothing is left is a mistake.",
    argument: Argument::Optional("GLOB", "names that match, as where= has it"),
    keys: &[],
    selects: true,
    examples: &[
        "select:encoder.*",
        "select,dtype=F32,min_size=1MiB",
        r"select,where_re=\.(weight|bias)$,not=head.*",
    ],
    make: |given| make(given, true),
};

pub(super) static DROP: Kind = Kind {
    name: "drop",
    summary: "leave some tensors out",
    details: "That nothing is left, and that nothing says which to leave out, is a mistake.",
    argument: Argument::Optional("GLOB", "names that match, as where= has it"),
    keys: &[],
    selects: true,
    examples: &["drop:*.num_batches_tracked", r"drop,where_re=(^|/)adam_[mv]$"],
    make: |given| make(given, false),
};

#[derive(Debug)]
struct Select {
    selector: Selector,
    keeps: bool,
}

fn make(given: &Given<'_>, keeps: bool) -> Result<Action> {
    let selector = Selector::of(given, given.argument())?;
    if selector.is_all() {
        return Err(Error::usage("expected a glob after a colon, or a key such as where= or dtype="));
    }
    Ok(Action::Tensor(Box::new(Select { selector, keeps })))
}

impl TensorStep for Select {
    fn apply(&self, catalog: Catalog, said: &mut Said) -> Result<Catalog> {
        let selected = self.selector.on(&catalog)?;
        let made: Vec<_> =
            unchanged(&catalog).filter(|made| selected.has(&made.tensor) == self.keeps).collect();
        said.touched += catalog.tensors().len() - made.len();
        if made.is_empty() {
            let found = catalog.tensors().first().map_or("no tensors", |tensor| &tensor.name);
            return Err(Error::usage("it leaves no tensor").found(format!("names such as {found:?}")));
        }
        rebuild(catalog, made, said)
    }
}
