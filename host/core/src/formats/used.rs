//! The record of a format that took part in a conversion: its id and its output revision.

use crate::formats::registry::RegisteredFormat;

/// A format that took part, and the revision of what it makes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct UsedFormat {
    /// The format's id.
    pub id: String,
    /// Its output revision.
    pub revision: u32,
}

impl UsedFormat {
    /// Each of several formats, once.
    #[must_use]
    pub fn all<'a>(formats: impl Iterator<Item = &'a RegisteredFormat>) -> Vec<Self> {
        let mut used: Vec<Self> = formats.map(Self::of).collect();
        used.sort();
        used.dedup();
        used
    }

    /// The record of a format.
    #[must_use]
    pub fn of(format: &RegisteredFormat) -> Self {
        Self { id: format.description.id.clone(), revision: format.description.output_revision }
    }
}
