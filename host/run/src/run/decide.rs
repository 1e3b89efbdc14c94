//! Decides whether a job must run, by comparing the job with the journal and the disk.

use crate::job::{Job, difference};
use crate::journal::{Commit, History, OutputHistory, OutputRecord, StampedFile, list_names};
use std::collections::HashSet;
use std::path::Path;
use tensorferry::places::recover;
use tensorferry::{Registry, UsedFormat};
use tensorferry_convert::receipt;

/// The decision whether a job must run, and the reason.
#[derive(Debug, Clone)]
pub(super) enum Decision<'h> {
    /// The job must run, for this reason.
    Run(String),
    /// The job's output was made by this commit and is up to date. If the completion of the commit
    /// is not recorded, the run was killed before it could record the completion.
    Unchanged(&'h Commit),
}

impl Decision<'_> {
    pub(super) fn runs(&self) -> bool {
        matches!(self, Self::Run(_))
    }

    pub(super) fn reason(&self) -> String {
        match self {
            Self::Run(why) => why.clone(),
            Self::Unchanged(commit) => format!("unchanged since {}", commit.at),
        }
    }
}

/// Decides whether a job must run. If `may_finish` is true, first completes a commit that was
/// started but not completed, which changes files on the disk.
pub(super) fn decide<'h>(
    job: &Job,
    history: &'h History,
    registry: &Registry,
    may_finish: bool,
) -> Decision<'h> {
    let known = history.of(job.output());
    let mut reason = None;
    // Several machines may have started the same job. The disk shows which machine has completed
    // the job.
    for commit in known.into_iter().flat_map(OutputHistory::commits) {
        if !commit.done && may_finish {
            // If the recovery fails, the comparison below finds a difference, and the job runs. The
            // recovery's notes are reported when the job runs.
            let _ = recover(&commit.made.destination());
        }
        match check(job, commit, registry) {
            Ok(()) => return Decision::Unchanged(commit),
            Err(why) if commit.done => reason = reason.or(Some(why)),
            Err(why) => {
                reason = reason.or(Some(format!("an earlier run was interrupted: {why}")));
            }
        }
    }
    Decision::Run(reason.unwrap_or_else(|| match known.and_then(|known| known.failure.as_ref()) {
        Some(failure) => format!("the last run failed: {failure}"),
        None if has_receipt(job) => "its output is not in the journal, so its receipt is checked".to_owned(),
        None => "it has not been converted yet".to_owned(),
    }))
}

fn has_receipt(job: &Job) -> bool {
    receipt::path_for(&job.request.output.path).is_file()
}

/// Checks that the output is up to date. The error describes what changed.
fn check(job: &Job, commit: &Commit, registry: &Registry) -> Result<(), String> {
    if let Some(why) = difference(&job.request, &commit.request) {
        return Err(why);
    }
    let OutputRecord { readers, writer, inputs, outputs, listing: names, .. } = &commit.made;
    let is_receipt = |file: &StampedFile| {
        file.path.file_name().and_then(|name| name.to_str()).is_some_and(receipt::is_name)
    };
    if job.request.output.receipt.is_some() && !outputs.iter().any(is_receipt) {
        return Err("it has no receipt".to_owned());
    }
    readers.iter().chain([writer]).try_for_each(|used| check_revision(used, registry))?;
    let session = registry.session();
    let seen = |file: &StampedFile| if commit.is_elsewhere { file.without_inode() } else { file.clone() };
    inputs.iter().try_for_each(|file| seen(file).check_input(session))?;
    outputs.iter().try_for_each(|file| seen(file).check_output(session))?;
    if names.is_some() {
        let without: HashSet<&Path> = outputs.iter().map(|file| &*file.path).collect();
        if list_names(&job.request.input.path, &without, registry.session()) != *names {
            return Err(format!("the files in {} have changed", job.input()));
        }
    }
    Ok(())
}

/// Checks that the output revision of a format has not changed. If the format is no longer loaded,
/// the check succeeds, because a new run of the job could not write the output either.
fn check_revision(used: &UsedFormat, registry: &Registry) -> Result<(), String> {
    let format = registry.formats().iter().find(|format| format.description.id == used.id);
    match format.map(|format| format.description.output_revision).filter(|&now| now != used.revision) {
        Some(now) => Err(format!("{} has a new output revision ({now}, was {})", used.id, used.revision)),
        None => Ok(()),
    }
}
