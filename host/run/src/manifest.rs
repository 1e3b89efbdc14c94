//! A manifest is a TOML file that lists conversions to run: single jobs, zoos of models, and
//! datasets.
//!
//! The models of a zoo and the files of a dataset are found in a folder. [`schema`] returns the
//! JSON Schema of manifests, and `docs/manifest.md` describes them.
//!
//! ```text
//! text --variables, types--> Manifest --folders searched, formats and options checked--> jobs
//! ```
//!
//! An error in a manifest is a [`Mistake`] with a position. All mistakes in a manifest are reported
//! together.

mod dataset_files;
mod expand;
mod folder_names;
mod input_path;
mod mistakes;
mod name_patterns;
mod own_files;
mod reading;
mod schema;
mod search;
mod template;
mod types;
mod variables;
mod zoo_files;

pub use mistakes::Mistake;
pub use schema::schema;
pub use types::{ByteSize, RunTable};
pub use variables::Variables;

use crate::job::Job;
use mistakes::Mistakes;
use std::path::Path;
use tensorferry::Registry;
use tensorferry_core::context::regular_file;

/// A manifest after it has been read and its folders have been searched.
#[derive(Debug, Clone)]
pub struct LoadedManifest {
    /// The jobs in the manifest's order. The jobs of a zoo or a dataset are sorted by path.
    pub jobs: Vec<Job>,
    /// The settings of the run, which all jobs share.
    pub run: RunTable,
    /// Notes about entries in the root folders that were skipped.
    pub notes: Vec<String>,
}

/// The data of a manifest apart from its jobs, which are passed to a function one by one.
pub(crate) struct Expanded {
    pub(crate) run: RunTable,
    pub(crate) notes: Vec<String>,
}

/// Reads a manifest. If the manifest has mistakes, returns all of them, sorted by position.
pub fn load(path: &Path, variables: &Variables, registry: &Registry) -> Result<LoadedManifest, Vec<Mistake>> {
    let mut jobs = Vec::new();
    let Expanded { run, notes } = expand(path, variables, registry, &mut |_, job| jobs.push(job))?;
    Ok(LoadedManifest { jobs, run, notes })
}

/// A function that receives each job, together with the settings for all jobs.
pub(crate) type TakeJob<'a> = dyn FnMut(&RunTable, Job) + 'a;

/// Reads a manifest and passes its jobs to `take` one by one, because a million jobs do not fit in
/// memory. Some jobs may already have been passed to `take` when a mistake is found.
pub(crate) fn expand(
    path: &Path,
    variables: &Variables,
    registry: &Registry,
    take: &mut TakeJob<'_>,
) -> Result<Expanded, Vec<Mistake>> {
    let read = regular_file::open(path).and_then(std::io::read_to_string);
    let mut mistakes = Mistakes::of(read.as_deref().unwrap_or_default());
    let text = match &read {
        Ok(text) => text,
        Err(error) => {
            mistakes.add(&(0..0), format!("cannot read the manifest: {error}"), None);
            return Err(mistakes.sorted());
        }
    };
    let manifest = reading::read(text, variables, &mut mistakes);
    let expanded = expand::expand(&manifest, path, registry, &mut mistakes, take);
    if mistakes.is_empty() { Ok(expanded) } else { Err(mistakes.sorted()) }
}
