//! `set_metadata` sets an entry of the metadata, `drop_metadata` removes entries.

use super::kind::{Argument, Count, Given, Key, Kind};
use super::{Action, Said, TensorStep};
use globset::{Glob, GlobMatcher};
use tensorferry_sdk::{Catalog, Result};

pub(super) static SET_METADATA: Kind = Kind {
    name: "set_metadata",
    summary: "set an entry of the metadata",
    details: "An entry of that key is replaced.",
    argument: Argument::Required("KEY", "the entry's key"),
    keys: &[Key { name: "to", value: "TEXT", count: Count::One, help: "its value" }],
    selects: false,
    examples: &["set_metadata:format,to=pt", "set_metadata:title,\"to=small, and trained\""],
    make: |given: &Given<'_>| {
        let (key, value) = (given.required_argument()?.text.clone(), given.required("to")?.text.clone());
        Ok(Action::Tensor(Box::new(Set { key, value })))
    },
};

pub(super) static DROP_METADATA: Kind = Kind {
    name: "drop_metadata",
    summary: "remove entries of the metadata",
    details: "What a user asks to leave out is no loss.",
    argument: Argument::Required("GLOB", "keys that match"),
    keys: &[],
    selects: false,
    examples: &["drop_metadata:ferry.tf.*"],
    make: |given: &Given<'_>| {
        let field = given.required_argument()?;
        let glob =
            Glob::new(&field.text).map_err(|error| field.error(format!("not a glob: {}", error.kind())))?;
        Ok(Action::Tensor(Box::new(Drop { keys: glob.compile_matcher() })))
    },
};

#[derive(Debug)]
struct Set {
    key: String,
    value: String,
}

#[derive(Debug)]
struct Drop {
    keys: GlobMatcher,
}

impl TensorStep for Set {
    fn apply(&self, catalog: Catalog, said: &mut Said) -> Result<Catalog> {
        let mut metadata = catalog.metadata().clone();
        metadata.insert(self.key.clone(), self.value.clone());
        said.touched += 1;
        Ok(catalog.with_metadata(metadata))
    }
}

impl TensorStep for Drop {
    fn apply(&self, catalog: Catalog, said: &mut Said) -> Result<Catalog> {
        let mut metadata = catalog.metadata().clone();
        metadata.retain(|key, _| !self.keys.is_match(key));
        said.touched += catalog.metadata().len() - metadata.len();
        Ok(catalog.with_metadata(metadata))
    }
}
