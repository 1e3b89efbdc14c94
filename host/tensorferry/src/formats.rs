//! Descriptions of formats and of the plugin libraries that provide them.

use crate::{RegisteredFormat, Registry};
use serde_json::Value;
pub use tensorferry_core::formats::document::kind;
#[cfg(feature = "dynamic")]
pub use tensorferry_core::formats::load::{sha256, sum_file};
pub use tensorferry_core::formats::options;
pub use tensorferry_core::formats::registry::holds_records;
#[cfg(feature = "dynamic")]
pub use tensorferry_core::formats::search::is_library;
pub use tensorferry_core::read::weights::globs;

/// Returns the description of a format that `ferry formats --json` prints.
#[must_use]
pub fn document(registry: &Registry, format: &RegisteredFormat) -> Value {
    tensorferry_core::formats::document::document(registry.as_ref(), format)
}
