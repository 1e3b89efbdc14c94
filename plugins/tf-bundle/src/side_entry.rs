//! The side entry is the [`SideRecord`] of a bundle: a scalar string under a key that TensorFlow passes
//! over.

use tensorferry_hub::SideRecord;
use tensorferry_sdk::{CatalogView, Result};

/// Its key.
pub(crate) const SIDE_ENTRY_KEY: &str = "_TENSORFERRY_METADATA";

/// Metadata under keys that begin so is about checkpoints of TensorFlow, and becomes part of them.
const OWN_PREFIX: &str = "ferry.tf.";

/// What is to be said of a catalog; `None`, if a bundle says it all.
pub(crate) fn of(catalog: &dyn CatalogView) -> Option<SideRecord> {
    let record = SideRecord { origin: catalog.origin(), metadata: other_metadata(catalog).collect() };
    (!record.metadata.is_empty()).then_some(record)
}

/// Reads the entry's string.
pub(crate) fn parse(text: &[u8]) -> Result<SideRecord> {
    SideRecord::parse(text, "the side entry").map_err(|error| error.tensor(SIDE_ENTRY_KEY))
}

/// The metadata of a catalog that is not about checkpoints of TensorFlow.
pub(crate) fn other_metadata(catalog: &dyn CatalogView) -> impl Iterator<Item = (String, String)> {
    let is_said = |key: &str, value: &str| key.starts_with(OWN_PREFIX) || (key, value) == ("format", "tf");
    catalog.metadata_texts().into_iter().filter(move |(key, value)| !is_said(key, value))
}
