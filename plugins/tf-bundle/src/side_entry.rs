//! Stores the [`SideRecord`] of a bundle as an entry: a scalar string under a key that TensorFlow
//! ignores.

use tensorferry_hub::SideRecord;
use tensorferry_sdk::{CatalogView, Result};

pub(crate) const SIDE_ENTRY_KEY: &str = "_TENSORFERRY_METADATA";

/// The prefix of metadata keys about TensorFlow checkpoints. The side record omits this metadata,
/// because the checkpoint's object graph and keys already represent it.
const OWN_PREFIX: &str = "ferry.tf.";

/// Returns the side record of a catalog, or `None` if the bundle already represents all metadata.
pub(crate) fn of(catalog: &dyn CatalogView) -> Option<SideRecord> {
    let record = SideRecord { origin: catalog.origin(), metadata: other_metadata(catalog).collect() };
    (!record.metadata.is_empty()).then_some(record)
}

/// Parses the string of the entry.
pub(crate) fn parse(text: &[u8]) -> Result<SideRecord> {
    SideRecord::parse(text, "the side entry").map_err(|error| error.tensor(SIDE_ENTRY_KEY))
}

/// Returns a catalog's metadata, except entries about TensorFlow checkpoints.
pub(crate) fn other_metadata(catalog: &dyn CatalogView) -> impl Iterator<Item = (String, String)> {
    let is_said = |key: &str, value: &str| key.starts_with(OWN_PREFIX) || (key, value) == ("format", "tf");
    catalog.metadata_texts().into_iter().filter(move |(key, value)| !is_said(key, value))
}
