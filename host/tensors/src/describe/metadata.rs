//! Reads well-known keys of a catalog's metadata: `general.*` from llama.cpp, `modelspec.*` from
//! Stability AI, and `ss_*` from kohya's trainers.

use tensorferry_sdk::{Catalog, Value};

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

    /// Returns the value of a key as a number. The number may be stored as text.
    pub(super) fn number<T: std::str::FromStr>(&self, key: &str) -> Option<T> {
        let value = self.value(key)?;
        value.as_text().map_or_else(|| value.json().parse().ok(), |text| text.parse().ok())
    }
}
