//! A record of a format that was used in a conversion: its ID and its output revision.

use crate::formats::registry::RegisteredFormat;

/// A format that was used, and the revision of its output.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct UsedFormat {
    pub id: String,
    pub revision: u32,
}

impl UsedFormat {
    /// Returns one record for each distinct format.
    #[must_use]
    pub fn all<'a>(formats: impl Iterator<Item = &'a RegisteredFormat>) -> Vec<Self> {
        let mut used: Vec<Self> = formats.map(Self::of).collect();
        used.sort();
        used.dedup();
        used
    }

    #[must_use]
    pub fn of(format: &RegisteredFormat) -> Self {
        Self { id: format.description.id.clone(), revision: format.description.output_revision }
    }
}
