//! The step `rename` replaces the matches of a regular expression in the names of tensors.

use super::pattern::{BESIDE, NamePattern, Template};
use super::rebuild::{rebuild, unchanged};
use super::signature::{ArgumentSpec, CheckedSpec, Key, Signature};
use super::tensor_step::{Effects, TensorAction, TensorStep};
use std::collections::BTreeMap;
use tensorferry_sdk::{Catalog, Error, Result};

pub(super) static RENAME: Signature = Signature {
    name: "rename",
    summary: "rename tensors",
    details: "Replaces every match of the expression; the rest of the name stays. In TEMPLATE, $1 or ${1} is a\n\
              group, and $$ a dollar sign. It is an error if two tensors get the same name.",
    argument: ArgumentSpec::Required("REGEX", "the text to replace; ^ and $ match the ends of the name"),
    keys: &[Key::one("to", "TEMPLATE", "the replacement; may be empty"), BESIDE],
    selects: true,
    examples: &["rename:^bert/(.*)$,to=$1", "rename:/,to=.", r"rename:\.bias$,to=.beta,beside=.gamma"],
};

/// Maximum number of name collisions that an error lists.
const MAX_LISTED: usize = 20;

#[derive(Debug)]
struct Rename {
    pattern: NamePattern,
    to: Template,
}

pub(super) fn rename(spec: &CheckedSpec<'_>) -> Result<TensorAction> {
    let pattern = NamePattern::of(spec)?;
    let to = Template::parse(spec.required("to")?, &pattern.regex, false)?;
    Ok(Box::new(Rename { pattern, to }))
}

impl TensorStep for Rename {
    fn apply(&self, catalog: Catalog, effects: &mut Effects) -> Result<Catalog> {
        let matches = self.pattern.on(&catalog)?;
        let mut tensors: Vec<_> = unchanged(&catalog).collect();
        for new in tensors.iter_mut().filter(|new| matches.has(&new.tensor)) {
            effects.touched += 1;
            new.tensor.name = self.pattern.rewrite(&new.tensor.name, &self.to, 0);
        }
        let names = catalog.tensors().iter().map(|tensor| tensor.name.as_str());
        check_collisions(names.zip(tensors.iter().map(|new| new.tensor.name.as_str())))?;
        rebuild(catalog, tensors, effects)
    }
}

/// Checks that no two tensors have the same new name.
pub(super) fn check_collisions<'a>(names: impl Iterator<Item = (&'a str, &'a str)>) -> Result<()> {
    let mut by_new: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (old, new) in names {
        by_new.entry(new).or_default().push(old);
    }
    let collide: Vec<String> = by_new
        .iter()
        .filter(|(_, old)| old.len() > 1)
        .map(|(new, old)| {
            format!("{} -> {new:?}", old.iter().map(|old| format!("{old:?}")).collect::<Vec<_>>().join(", "))
        })
        .collect();
    if collide.is_empty() {
        return Ok(());
    }
    let more = collide.len().saturating_sub(MAX_LISTED);
    let more = if more == 0 { String::new() } else { format!("; and {more} more") };
    let listed: Vec<String> = collide.into_iter().take(MAX_LISTED).collect();
    Err(Error::usage(format!("several tensors would have the same name: {}{more}", listed.join("; "))))
}
