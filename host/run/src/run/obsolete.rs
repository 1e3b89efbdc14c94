//! Finds outputs of earlier runs that no job of the current manifest writes.

use crate::job::Job;
use crate::journal::History;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// Returns a note for each dataset whose folder contains outputs of file groups that no longer
/// exist. Programs that read the folder would include these outputs.
pub(super) fn notes(jobs: &[Job], history: &History) -> Vec<String> {
    let mut outputs: BTreeMap<&str, HashSet<&str>> = BTreeMap::new();
    for job in jobs {
        if let Some(group) = &job.request.input.file_group {
            outputs.entry(&group.dataset).or_default().insert(job.output());
        }
    }
    let mut obsolete: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for (output, known) in history.outputs() {
        let group = known.commits().next().and_then(|commit| commit.request.input.file_group.as_ref());
        let Some(group) = group else { continue };
        let is_obsolete = outputs.get(&*group.dataset).is_some_and(|outputs| !outputs.contains(output));
        if let Some(file) = known.owned.keys().find(|file| is_obsolete && file.exists()) {
            obsolete.entry(&group.dataset).or_default().push(file);
        }
    }
    let note = |(dataset, files): (&str, Vec<&Path>)| {
        let first = files.iter().min().map(|file| file.display().to_string()).unwrap_or_default();
        let outputs = match files.len() {
            1 => "1 output is left".to_owned(),
            count => format!("{count} outputs are left"),
        };
        format!(
            "{outputs} of the dataset {dataset:?} whose file groups no longer exist: {first}; remove files that you do not need"
        )
    };
    obsolete.into_iter().map(note).collect()
}
