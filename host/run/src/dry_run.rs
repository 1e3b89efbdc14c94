//! A dry run plans every job and writes nothing: formats, bytes, losses, the space that is needed and
//! there, and what is in the way.

use super::decide::{Verdict, decide};
use super::event::{Event, Listener};
use super::job::{Force, Job};
use super::journal::Journal;
use super::offspring::Outcome;
use super::pool::{Pool, Queued};
use super::run::Options;
use super::schemas::{self, Keep};
use super::summary::{Failure, JobSummary};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use tensorferry::engine::formats::registry::Registry;

/// What a run would do.
#[derive(Debug, Default, Serialize)]
pub struct Plan {
    /// Every job that was asked for.
    pub jobs: Vec<Planned>,
    /// The file systems that would be written to.
    pub space: Vec<Space>,
    /// Why the run could not do all of that.
    pub conflicts: Vec<Conflict>,
}

/// One job's plan.
#[derive(Debug, Serialize)]
pub struct Planned {
    /// The job's name.
    #[serde(rename = "name")]
    pub job: String,
    /// INPUT.
    pub input: String,
    /// OUTPUT.
    pub output: String,
    /// Whether it would run.
    pub runs: bool,
    /// Why, or why not.
    pub reason: String,
    /// Its files, as far as they are known before.
    pub files: Vec<(PathBuf, u64)>,
    /// What it would come to.
    #[serde(flatten)]
    pub summary: Option<PlannedSummary>,
    /// Why it would fail.
    pub failure: Option<Failure>,
}

/// What a job would come to.
#[derive(Debug, Serialize)]
pub struct PlannedSummary {
    /// The input's format.
    pub from: Option<String>,
    /// The output's format.
    pub to: Option<String>,
    /// Bytes that would be copied.
    pub bytes: u64,
    /// Tensors, unless it holds records.
    pub tensors: Option<u64>,
    /// Records, where it holds them and how many is known.
    pub records: Option<u64>,
    /// What would be lost.
    pub losses: Vec<tensorferry::engine::context::loss::LossRecord<'static>>,
}

/// A file system.
#[derive(Debug, Serialize)]
pub struct Space {
    /// A folder on it that would be written to.
    pub folder: PathBuf,
    /// Bytes that the plan needs.
    pub needed: u64,
    /// Bytes that are free.
    pub free: u64,
}

/// What keeps jobs from being done.
#[derive(Debug, Serialize)]
pub struct Conflict {
    /// The jobs.
    pub jobs: Vec<String>,
    /// What is in the way.
    pub what: String,
}

/// Plans. The journal is read, not locked.
#[must_use]
pub fn plan(
    jobs: &[Job],
    registry: &Registry,
    options: &Options,
    listener: &dyn Listener,
    cancelled: &AtomicBool,
) -> Plan {
    let history = Journal::read(&options.journal);
    let mut jobs = jobs.to_vec();
    // What no journal knows stays unknown: nothing is read through for a plan.
    let nothing = |units: &[Job]| Ok(vec![None; units.len()]);
    let keep = Keep { journal: &options.journal, writes: false };
    if let Err(error) =
        schemas::fix(&mut jobs, &|job| options.wants(job), &history, registry, &keep, &nothing)
    {
        debug_assert!(false, "nothing was read or written: {error}");
    }
    let wanted: Vec<&Job> = jobs.iter().filter(|job| options.wants(job)).collect();
    let verdicts: Vec<Verdict> = wanted.iter().map(|job| decide(job, &history, registry, false)).collect();
    let runs = |verdict: &Verdict| matches!(verdict, Verdict::Run(_));
    let queued: Vec<Queued<'_>> = wanted
        .iter()
        .zip(&verdicts)
        .enumerate()
        .filter(|(_, (_, verdict))| runs(verdict))
        .map(|(index, (&job, _))| Queued::new(index, job))
        .collect();
    listener.hear(&Event::RunBegan {
        jobs: wanted.len(),
        to_run: queued.len(),
        bytes: queued.iter().map(|queued| queued.bytes).sum(),
        journal: options.journal.clone(),
    });
    let outcomes: Mutex<HashMap<usize, Outcome>> = Mutex::default();
    let pool = Pool {
        budget: &options.budget,
        launch: &options.launch,
        scans: false,
        journal: None,
        listener,
        cancelled,
        fail_fast: false,
    };
    pool.run(queued, &|_, went| {
        if let Ok(mut outcomes) = outcomes.lock() {
            outcomes.insert(went.index, went.outcome);
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_default();
    let planned = wanted.iter().zip(&verdicts).enumerate();
    let jobs: Vec<Planned> =
        planned.map(|(index, (job, verdict))| planned_job(job, verdict, outcomes.remove(&index))).collect();
    let owned = |job: &Job| history.of(&job.conversion.output).map(|known| &known.owned);
    let conflicts = conflicts(&wanted, &jobs, &owned);
    Plan { space: space(&jobs), conflicts, jobs }
}

fn planned_job(job: &Job, verdict: &Verdict, outcome: Option<Outcome>) -> Planned {
    let mut planned = Planned {
        job: job.name.clone(),
        input: job.conversion.input.clone(),
        output: job.conversion.output.clone(),
        runs: matches!(verdict, Verdict::Run(_)),
        reason: verdict.reason(),
        files: Vec::new(),
        summary: None,
        failure: None,
    };
    match outcome {
        Some(Outcome::Done { summary, files }) => {
            let JobSummary { from, to, bytes_out, tensors, records, losses, .. } = *summary;
            planned.files = files;
            planned.summary = Some(PlannedSummary { from, to, bytes: bytes_out, tensors, records, losses });
        }
        Some(Outcome::Failed(failure)) => planned.failure = Some(failure),
        Some(Outcome::Cancelled | Outcome::Scanned(_)) | None => {}
    }
    planned
}

fn conflicts<'a>(
    wanted: &[&Job],
    planned: &[Planned],
    owned: &dyn Fn(&Job) -> Option<&'a HashSet<PathBuf>>,
) -> Vec<Conflict> {
    let mut makers: BTreeMap<&Path, Vec<&str>> = BTreeMap::new();
    let mut found = Vec::new();
    for (job, plan) in wanted.iter().zip(planned) {
        for (path, _) in &plan.files {
            makers.entry(path.as_path()).or_default().push(&plan.job);
            let is_ours = owned(job).is_some_and(|owned| owned.contains(path));
            let may_replace = job.care.force == Force::Always || (job.care.force == Force::Own && is_ours);
            if !may_replace && std::fs::symlink_metadata(path).is_ok() {
                let what = format!("{} exists, and is not this manifest's to replace", path.display());
                found.push(Conflict { jobs: vec![plan.job.clone()], what });
            }
        }
    }
    for (path, jobs) in makers.into_iter().filter(|(_, jobs)| jobs.len() > 1) {
        let jobs = jobs.into_iter().map(str::to_owned).collect();
        found.push(Conflict { jobs, what: format!("all of them write {}", path.display()) });
    }
    found
}

fn space(planned: &[Planned]) -> Vec<Space> {
    let mut by_device: BTreeMap<u64, Space> = BTreeMap::new();
    for plan in planned {
        let Some(summary) = &plan.summary else { continue };
        let output = Path::new(&plan.output);
        let folder = output.ancestors().skip(1).find(|path| path.is_dir()).unwrap_or(Path::new("/"));
        let Ok(meta) = std::fs::metadata(folder) else { continue };
        let free = rustix::fs::statvfs(folder).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
        let space = by_device.entry(meta.dev()).or_insert_with(|| Space {
            folder: folder.to_owned(),
            needed: 0,
            free,
        });
        space.needed += summary.bytes;
    }
    let mut found: Vec<Space> = by_device.into_values().collect();
    found.retain(|space| space.needed > 0);
    found
}

impl Plan {
    /// Whether a run could do all of it.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        self.conflicts.is_empty()
            && self.jobs.iter().all(|job| job.failure.is_none())
            && self.space.iter().all(|space| space.needed <= space.free)
    }
}
