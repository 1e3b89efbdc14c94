//! A dry run plans every job without writing anything. It reports formats, bytes, losses, disk
//! space and conflicts.

use super::RunOptions;
use super::decide::{Decision, decide};
use super::schemas::{self, SchemaStore};
use crate::events::{Event, EventListener};
use crate::exit::{ENVIRONMENT, REFUSED, USAGE};
use crate::job::{Force, Job};
use crate::journal::{Journal, output_identity};
use crate::pool::{QueuedJob, WorkerPool};
use crate::report::{JobFailure, JobSummary};
use crate::worker::JobOutcome;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use tensorferry::inspect::AccountRecord;
use tensorferry::places::is_url;
use tensorferry::{LossRecord, Registry, Session};
use tensorferry_convert::receipt;
use tensorferry_core::read::identity::FileIdentity;

/// The plan of a run.
#[derive(Debug, Default, Serialize)]
pub struct RunPlan {
    /// All selected jobs.
    pub jobs: Vec<JobPlan>,
    /// The file systems that the outputs are written to.
    pub space: Vec<DiskSpace>,
    /// The reasons why a run could not be completed.
    pub conflicts: Vec<Conflict>,
}

#[derive(Debug, Serialize)]
pub struct JobPlan {
    pub name: String,
    pub input: String,
    pub output: String,
    pub runs: bool,
    /// The reason why the job would run or would not run.
    pub reason: String,
    /// The output files and their lengths, if these are known in advance.
    pub files: Vec<(PathBuf, u64)>,
    #[serde(flatten)]
    pub output_plan: Option<OutputPlan>,
    /// The reason why the job would fail.
    pub failure: Option<JobFailure>,
}

#[derive(Debug, Serialize)]
pub struct OutputPlan {
    pub from: Option<String>,
    pub to: Option<String>,
    /// Number of bytes to copy.
    pub bytes: u64,
    /// Number of tensors, unless the output contains records.
    pub tensors: Option<u64>,
    /// Number of records, if the output contains records and their number is known.
    pub records: Option<u64>,
    /// The outcome for each entry of the input.
    pub account: Option<AccountRecord>,
    pub losses: Vec<LossRecord<'static>>,
}

/// The required and free space on a file system.
#[derive(Debug, Serialize)]
pub struct DiskSpace {
    /// One of the output folders on the file system.
    pub folder: PathBuf,
    /// Number of bytes that the run needs.
    pub needed: u64,
    /// Number of free bytes.
    pub free: u64,
}

/// A reason why jobs cannot run.
#[derive(Debug, Serialize)]
pub struct Conflict {
    pub jobs: Vec<String>,
    pub what: String,
}

/// Determines what a run of the selected jobs would do. The journal is read but not locked.
#[must_use]
pub fn dry_run(
    jobs: &[Job],
    registry: &Registry,
    options: &RunOptions,
    listener: &dyn EventListener,
    cancelled: &AtomicBool,
) -> RunPlan {
    let history = Journal::read(&options.journal);
    let mut jobs = jobs.to_vec();
    // A dry run does not scan file groups, so schemas that are not in the journal remain unknown.
    let scan_nothing = |groups: &[Job]| Ok(vec![None; groups.len()]);
    let store = SchemaStore { journal: &options.journal, writes: false };
    let is_wanted = |job: &Job| options.wants(job);
    if let Err(error) = schemas::find(&mut jobs, &is_wanted, &history, registry, &store, &scan_nothing) {
        debug_assert!(false, "an empty scan cannot fail: {error}");
    }
    let wanted: Vec<&Job> = jobs.iter().filter(|job| options.wants(job)).collect();
    let decisions: Vec<Decision<'_>> =
        wanted.iter().map(|job| decide(job, &history, registry, false)).collect();
    let to_run = wanted.iter().zip(&decisions).enumerate().filter(|(_, (_, decision))| decision.runs());
    let queued: Vec<QueuedJob<'_>> =
        to_run.map(|(index, (&job, _))| QueuedJob::new(index, job, registry.session())).collect();
    listener.on_event(&Event::RunBegan {
        jobs: wanted.len(),
        to_run: queued.len(),
        bytes: queued.iter().map(|queued| queued.bytes).sum(),
        journal: options.journal.clone(),
    });
    let outcomes: Mutex<HashMap<usize, JobOutcome>> = Mutex::default();
    let pool = WorkerPool { scan_only: false, ..options.pool(listener, cancelled) };
    pool.run(queued, &|_, finished| {
        if let Ok(mut outcomes) = outcomes.lock() {
            outcomes.insert(finished.index, finished.outcome);
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_default();
    let planned = wanted.iter().zip(&decisions).enumerate();
    let jobs: Vec<JobPlan> =
        planned.map(|(index, (job, decision))| job_plan(job, decision, outcomes.remove(&index))).collect();
    let owned = |job: &Job| history.of(job.output()).map(|known| &known.owned);
    let conflicts = conflicts(&wanted, &jobs, &owned, registry.session());
    RunPlan { space: space(&jobs), conflicts, jobs }
}

fn job_plan(job: &Job, decision: &Decision<'_>, outcome: Option<JobOutcome>) -> JobPlan {
    let mut plan = JobPlan {
        name: job.name.clone(),
        input: job.input().to_owned(),
        output: job.output().to_owned(),
        runs: decision.runs(),
        reason: decision.reason(),
        files: Vec::new(),
        output_plan: None,
        failure: None,
    };
    match outcome {
        Some(JobOutcome::Done { summary, files, .. }) => {
            let JobSummary { from, to, bytes_out, tensors, records, account, losses, .. } = *summary;
            plan.files = files;
            plan.output_plan =
                Some(OutputPlan { from, to, bytes: bytes_out, tensors, records, account, losses });
        }
        Some(JobOutcome::Failed(failure)) => plan.failure = Some(failure),
        Some(JobOutcome::Cancelled | JobOutcome::Scanned(_)) | None => {}
    }
    plan
}

fn conflicts<'a>(
    wanted: &[&Job],
    planned: &[JobPlan],
    owned: &dyn Fn(&Job) -> Option<&'a HashMap<PathBuf, Vec<FileIdentity>>>,
    session: &Session,
) -> Vec<Conflict> {
    let mut makers: BTreeMap<&Path, Vec<&str>> = BTreeMap::new();
    let mut found = Vec::new();
    for (job, plan) in wanted.iter().zip(planned) {
        for (path, _) in &plan.files {
            makers.entry(path.as_path()).or_default().push(&plan.name);
            let is_ours = owned(job).is_some_and(|owned| owned.contains_key(path));
            // For a dry run, it is enough that a receipt exists. Only a real run checks the output
            // against the receipt.
            let may_be_ours = || receipt::path_for(Path::new(&plan.output)).is_file();
            let may_replace = match job.policy.force {
                Force::Own => is_ours || may_be_ours(),
                force => force == Force::Always,
            };
            if !may_replace && output_identity(path, session).is_ok_and(|found| found.is_some()) {
                let what = format!("{} exists and was not written by this manifest", path.display());
                found.push(Conflict { jobs: vec![plan.name.clone()], what });
            }
        }
    }
    for (path, jobs) in makers.into_iter().filter(|(_, jobs)| jobs.len() > 1) {
        let jobs = jobs.into_iter().map(str::to_owned).collect();
        found.push(Conflict { jobs, what: format!("several jobs write {}", path.display()) });
    }
    found
}

fn space(planned: &[JobPlan]) -> Vec<DiskSpace> {
    let mut by_device: BTreeMap<u64, DiskSpace> = BTreeMap::new();
    for plan in planned {
        let Some(output) = plan.output_plan.as_ref().filter(|_| !is_url(&plan.output)) else { continue };
        let folder =
            Path::new(&plan.output).ancestors().skip(1).find(|path| path.is_dir()).unwrap_or(Path::new("/"));
        let Ok(meta) = std::fs::metadata(folder) else { continue };
        let free = rustix::fs::statvfs(folder).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
        let space = by_device.entry(meta.dev()).or_insert_with(|| DiskSpace {
            folder: folder.to_owned(),
            needed: 0,
            free,
        });
        space.needed += output.bytes;
    }
    let mut found: Vec<DiskSpace> = by_device.into_values().collect();
    found.retain(|space| space.needed > 0);
    found
}

impl RunPlan {
    /// Returns the exit code of the program, which is 0 if a run could be completed.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        if !self.conflicts.is_empty() {
            USAGE
        } else if self.jobs.iter().any(|job| job.failure.is_some()) {
            REFUSED
        } else if self.space.iter().any(DiskSpace::is_short) {
            ENVIRONMENT
        } else {
            0
        }
    }
}

impl DiskSpace {
    /// Returns whether the run needs more space than is free.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.needed > self.free
    }
}
