//! The step `set_metadata` sets a metadata entry, and `drop_metadata` removes metadata entries.

use super::signature::{ArgumentSpec, CheckedSpec, Key, Signature};
use super::tensor_step::{Effects, TensorAction, TensorStep};
use globset::{Glob, GlobMatcher};
use tensorferry_sdk::{Catalog, Result, Value};

pub(super) static SET_METADATA: Signature = Signature {
    name: "set_metadata",
    summary: "set a metadata entry",
    details: "Replaces an entry with the same key. The value is text.",
    argument: ArgumentSpec::Required("KEY", "the entry's key"),
    keys: &[Key::one("to", "TEXT", "its value")],
    selects: false,
    examples: &["set_metadata:format,to=pt", "set_metadata:title,\"to=small, and trained\""],
};

pub(super) static DROP_METADATA: Signature = Signature {
    name: "drop_metadata",
    summary: "remove metadata entries",
    details: "Removed entries are not reported as losses.",
    argument: ArgumentSpec::Required("GLOB", "keys that match"),
    keys: &[],
    selects: false,
    examples: &["drop_metadata:ferry.tf.*"],
};

pub(super) fn set(spec: &CheckedSpec<'_>) -> Result<TensorAction> {
    let (key, value) = (spec.required_argument()?.text.clone(), spec.required("to")?.text.clone());
    Ok(Box::new(SetMetadata { key, value }))
}

pub(super) fn drop(spec: &CheckedSpec<'_>) -> Result<TensorAction> {
    let field = spec.required_argument()?;
    let glob =
        Glob::new(&field.text).map_err(|error| field.error(format!("not a glob: {}", error.kind())))?;
    Ok(Box::new(DropMetadata { keys: glob.compile_matcher() }))
}

#[derive(Debug)]
struct SetMetadata {
    key: String,
    value: String,
}

#[derive(Debug)]
struct DropMetadata {
    keys: GlobMatcher,
}

impl TensorStep for SetMetadata {
    fn apply(&self, catalog: Catalog, effects: &mut Effects) -> Result<Catalog> {
        let mut metadata = catalog.metadata().clone();
        metadata.insert(self.key.clone(), Value::text(&self.value));
        effects.touched += 1;
        Ok(catalog.with_metadata(metadata))
    }
}

impl TensorStep for DropMetadata {
    fn apply(&self, catalog: Catalog, effects: &mut Effects) -> Result<Catalog> {
        let mut metadata = catalog.metadata().clone();
        metadata.retain(|key, _| !self.keys.is_match(key));
        effects.touched += catalog.metadata().len() - metadata.len();
        Ok(catalog.with_metadata(metadata))
    }

    fn is_about(&self) -> &'static str {
        "entry"
    }
}
