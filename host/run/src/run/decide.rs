//! A decision whether a job must run: it compares the job with what the journal knows and the disk holds.

use crate::job::{Job, difference};
use crate::journal::{Commit, History, OutputHistory, OutputRecord, StampedFile, list_names};
use std::collections::HashSet;
use std::path::Path;
use tensorferry::places::recover;
use tensorferry::{Registry, UsedFormat};
use tensorferry_convert::receipt;

/// Whether a job must run, and why.
#[derive(Debug, Clone)]
pub(super) enum Decision<'h> {
    /// It must, for this reason.
    Run(String),
    /// Its output is there, by this commit, and is what it would write. Where the commit is not known to have ended, the run was
    /// killed before it could say so.
    Unchanged(&'h Commit),
}

impl Decision<'_> {
    pub(super) fn runs(&self) -> bool {
        matches!(self, Self::Run(_))
    }

    /// In words.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Run(why) => why.clone(),
            Self::Unchanged(commit) => format!("unchanged since it was done at {}", commit.at),
        }
    }
}

/// Decides. `may_finish`: whether a commit that was begun may be finished first, which changes the disk.
pub(super) fn decide<'h>(
    job: &Job,
    history: &'h History,
    registry: &Registry,
    may_finish: bool,
) -> Decision<'h> {
    let known = history.of(job.output());
    let mut reason = None;
    // Several machines may have begun the same work. The disk tells which of them has done it.
    for commit in known.into_iter().flat_map(OutputHistory::commits) {
        if !commit.done && may_finish {
            // What it cannot finish, the comparison finds. Notes are given when the job runs.
            let _ = recover(&commit.made.destination());
        }
        match check(job, commit, registry) {
            Ok(()) => return Decision::Unchanged(commit),
            Err(why) if commit.done => reason = reason.or(Some(why)),
            Err(why) => {
                reason = reason.or(Some(format!("an earlier run was ended before it was done: {why}")));
            }
        }
    }
    Decision::Run(reason.unwrap_or_else(|| match known.and_then(|known| known.failure.as_ref()) {
        Some(failure) => format!("it failed before: {failure}"),
        None if has_receipt(job) => "no journal knows its output: its receipt is looked at".to_owned(),
        None => "it has not been done".to_owned(),
    }))
}

fn has_receipt(job: &Job) -> bool {
    receipt::path_for(&job.request.output.path).is_file()
}

/// Checks that the output is still what the job would write; the error says what changed.
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
    let seen = |file: &StampedFile| if commit.is_elsewhere { file.seen_elsewhere() } else { file.clone() };
    inputs.iter().try_for_each(|file| seen(file).check_input(session))?;
    outputs.iter().try_for_each(|file| seen(file).check_output(session))?;
    if names.is_some() {
        let without: HashSet<&Path> = outputs.iter().map(|file| &*file.path).collect();
        if list_names(&job.request.input.path, &without, registry.session()) != *names {
            return Err(format!("other files are in {}", job.input()));
        }
    }
    Ok(())
}

/// A format that is not loaded any more could not write the output again: the output stays as it is.
fn check_revision(used: &UsedFormat, registry: &Registry) -> Result<(), String> {
    let format = registry.formats().iter().find(|format| format.description.id == used.id);
    match format.map(|format| format.description.output_revision).filter(|&now| now != used.revision) {
        Some(now) => {
            Err(format!("{} makes other bytes now (revision {now}, was {})", used.id, used.revision))
        }
        None => Ok(()),
    }
}
