//! To decide is to compare a job with what the journal knows and what the disk holds: it must run, or
//! what it would make is there.

use super::found::listing;
use super::job::Job;
use super::journal::{Commit, History};
use super::protocol::Made;
use std::collections::HashSet;
use std::path::Path;
use tensorferry::engine::formats::registry::Registry;
use tensorferry::engine::formats::used::UsedFormat;
use tensorferry::engine::publish::commit::recover;

/// Whether a job must run, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It must.
    Run(String),
    /// Its output is there, and is what it would make.
    Unchanged {
        /// Since when.
        at: String,
        /// Whether the journal does not say yet that it was committed: the run that did it was killed
        /// between the two.
        is_news: bool,
    },
}

impl Verdict {
    /// In words.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Run(why) => why.clone(),
            Self::Unchanged { at, .. } => format!("unchanged since it was done at {at}"),
        }
    }
}

/// Decides. `may_finish`: whether a commit that was begun may be finished first, which changes the disk.
#[must_use]
pub fn decide(job: &Job, history: &History, registry: &Registry, may_finish: bool) -> Verdict {
    let known = history.of(&job.conversion.output);
    let Some(commit) = known.and_then(|known| known.commit.as_ref()) else {
        return Verdict::Run(match known.and_then(|known| known.failure.as_ref()) {
            Some(failure) => format!("it failed before: {failure}"),
            None => "it has not been done".to_owned(),
        });
    };
    if !commit.done && may_finish {
        // What it cannot finish, the comparison finds. Notes are given when the job runs.
        let _ = recover(&commit.made.destination());
    }
    match check(job, commit, registry) {
        Ok(()) => Verdict::Unchanged { at: commit.at.clone(), is_news: !commit.done },
        Err(why) if commit.done => Verdict::Run(why),
        Err(why) => Verdict::Run(format!("an earlier run was ended before it was done: {why}")),
    }
}

fn check(job: &Job, commit: &Commit, registry: &Registry) -> Result<(), String> {
    if let Some(why) = job.conversion.differs_from(&commit.conversion) {
        return Err(why);
    }
    let Made { readers, writer, inputs, outputs, listing: names, .. } = &commit.made;
    readers.iter().chain([writer]).try_for_each(|used| check_revision(used, registry))?;
    inputs.iter().try_for_each(|placed| placed.check_input())?;
    outputs.iter().try_for_each(|placed| placed.check_output())?;
    if names.is_some() {
        let without: HashSet<&Path> = outputs.iter().map(|placed| &*placed.path).collect();
        if listing(Path::new(&job.conversion.input), &without) != *names {
            return Err(format!("other files are in {}", job.conversion.input));
        }
    }
    Ok(())
}

/// A format that is not here any more could not make the output anew: what stands is left.
fn check_revision(used: &UsedFormat, registry: &Registry) -> Result<(), String> {
    let format = registry.formats().iter().find(|format| format.description.id == used.id);
    match format.map(|format| format.description.output_revision).filter(|&now| now != used.revision) {
        Some(now) => {
            Err(format!("{} makes other bytes now (revision {now}, was {})", used.id, used.revision))
        }
        None => Ok(()),
    }
}
