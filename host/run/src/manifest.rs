//! A manifest says which conversions to run: jobs, one by one, zoos, whose models are found in a folder,
//! and data sets, whose files are. It is TOML; its schema is [`schema::text`], and `docs/manifest.md` tells the rest.
//!
//! ```text
//! text --variables, types--> Manifest --zoos searched, formats and options checked--> jobs
//! ```
//!
//! Whatever is wrong is a [`Mistake`] with its place, and all of them are found at once.

mod datasets;
mod expand;
mod mistakes;
mod models;
mod reading;
pub mod schema;
mod template;
pub mod types;
mod variables;

pub use mistakes::{Mistake, Mistakes};
pub use variables::Variables;

use crate::job::Job;
use std::path::Path;
use tensorferry::engine::formats::registry::Registry;
use types::RunTable;

/// A manifest that has been read, its zoos searched.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// In the manifest's order; those of a zoo by path.
    pub jobs: Vec<Job>,
    /// What the runs share.
    pub run: RunTable,
    /// What a person should know and is no mistake.
    pub notes: Vec<String>,
}

/// Reads a manifest.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(path: &Path, variables: &Variables, registry: &Registry) -> Result<Loaded, Mistakes> {
    let mut mistakes = Mistakes::of(path);
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            mistakes.add_plain(format!("cannot read the manifest: {error}"));
            return Err(mistakes);
        }
    };
    mistakes.set_text(&text);
    let manifest = reading::read(&text, variables, &mut mistakes);
    let loaded = expand::expand(&manifest, path, registry, &mut mistakes);
    if mistakes.is_empty() { Ok(loaded) } else { Err(mistakes) }
}
