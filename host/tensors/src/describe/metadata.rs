//! What a catalog's metadata says under keys that are the same wherever models are told apart: `general.*` of llama.cpp,
//! `modelspec.*` of Stability AI, `ss_*` of kohya's trainers.

use tensorferry_sdk::{Catalog, Value};

/// The metadata of a catalog.
pub(super) struct Metadata<'a>(&'a Catalog);

impl<'a> Metadata<'a> {
    pub(super) fn of(catalog: &'a Catalog) -> Self {
        Self(catalog)
    }

    pub(super) fn value(&self, key: &str) -> Option<&'a Value> {
        self.0.metadata().get(key)
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.value(key)?.as_text().filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// A number, also one that is written as a text.
    pub(super) fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        let value = self.value(key)?;
        value.as_text().map_or_else(|| value.json().parse().ok(), |text| text.parse().ok())
    }
}
