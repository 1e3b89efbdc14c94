//! One run of a manifest's jobs, from what is asked for to a summary.

use super::budget::Budget;
use super::decide::{Verdict, decide};
use super::event::{Event, Listener};
use super::job::{Force, Job};
use super::journal::{Commit, History, Journal, Known, Record};
use super::offspring::{Launch, Outcome};
use super::pool::{Pool, Queued, Went};
use super::scan::key;
use super::schemas::{self, Keep, Scanned};
use super::shard::Shard;
use super::summary::{Budget as Shared, Failure, JobSummary, State, Summary, Totals, VERSION};
use crate::exit::{INTERRUPTED, REFUSED, TRANSIENT};
use globset::GlobSet;
use rayon::prelude::*;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tensorferry::engine::context::fault;
use tensorferry::engine::formats::registry::Registry;
use tensorferry::engine::receipt::now;
use tensorferry_sdk::Result;

/// What a run is asked for.
#[derive(Debug)]
pub struct Options {
    /// The manifest, for what people read.
    pub manifest: PathBuf,
    /// The manifest's journal; see [`Journal::beside`].
    pub journal: PathBuf,
    /// `--only`: names.
    pub only: Option<GlobSet>,
    /// `--shard`.
    pub shard: Option<Shard>,
    /// `--explain`.
    pub explain: bool,
    /// `--fail-fast`.
    pub fail_fast: bool,
    /// What the jobs share.
    pub budget: Budget,
    /// How a job's process is started.
    pub launch: Launch,
}

/// What a run came to.
#[derive(Debug)]
pub struct Ended {
    /// All of it.
    pub summary: Summary,
    /// The program's exit code.
    pub exit_code: u8,
    /// What a person should know beside that.
    pub notes: Vec<String>,
}

impl Options {
    /// Whether a job is one of those that were asked for.
    #[must_use]
    pub fn wants(&self, job: &Job) -> bool {
        self.only.as_ref().is_none_or(|only| only.is_match(&job.name))
            && self.shard.is_none_or(|shard| shard.has(&job.conversion.output))
    }
}

/// Does what has to be done of `jobs`. That a job fails is no error.
///
/// # Errors
/// Transient, if another run has the journal; i/o, if it cannot be written.
pub fn run(
    jobs: &[Job],
    registry: &Registry,
    options: &Options,
    listener: &dyn Listener,
    cancelled: &AtomicBool,
) -> Result<Ended> {
    let (started, at) = (Instant::now(), now());
    let part = options.shard.map(Shard::word);
    let (journal, history) = Journal::open(&options.journal, part.as_deref())?;
    journal.append_synced(&Record::Begin {
        at: at.clone(),
        ferry: env!("CARGO_PKG_VERSION").to_owned(),
        manifest: options.manifest.clone(),
        process: std::process::id(),
    })?;
    fault::reach("journal-begun")?;

    let mut pool = Pool {
        budget: &options.budget,
        launch: &options.launch,
        scans: true,
        journal: None,
        listener,
        cancelled,
        fail_fast: false,
    };
    let mut jobs = jobs.to_vec();
    let wants = |job: &Job| options.wants(job);
    let keep = Keep { journal: &options.journal, writes: true };
    let read = |units: &[Job]| scan_all(units, &pool, &journal);
    let fixed = schemas::fix(&mut jobs, &wants, &history, registry, &keep, &read)?;
    let is_out = |index: usize| fixed.failures.contains_key(&index);
    let verdicts: Vec<Option<Verdict>> = jobs
        .par_iter()
        .enumerate()
        .map(|(index, job)| (wants(job) && !is_out(index)).then(|| decide(job, &history, registry, true)))
        .collect();
    let mut queued = Vec::new();
    let mut results: Vec<JobSummary> = Vec::with_capacity(jobs.len());
    for ((index, job), verdict) in jobs.iter().enumerate().zip(&verdicts) {
        let known = history.of(&job.conversion.output);
        if let Some(verdict) = verdict.as_ref().filter(|_| options.explain) {
            let runs = matches!(verdict, Verdict::Run(_));
            listener.hear(&Event::Decided { job: &job.name, runs, reason: &verdict.reason() });
        }
        if let Some(Verdict::Unchanged { is_news: true, .. }) = verdict {
            journal.done(&job.conversion.output)?;
        }
        if let Some(Verdict::Run(_)) = verdict
            && !job.lacks_schema()
        {
            let bytes = job.bytes();
            let own = known.filter(|_| job.care.force == Force::Own);
            let owned = own.map(Known::ours).unwrap_or_default();
            let scanned = fixed.scans.get(&index).map(|scan| scan.inputs.clone()).unwrap_or_default();
            let refused = fixed.refused.get(&index).cloned();
            queued.push(Queued { index, job, bytes, owned, scanned, refused });
        }
        results.push(before(job, verdict.as_ref(), known.and_then(|known| known.commit.as_ref())));
    }
    listener.hear(&Event::RunBegan {
        jobs: jobs.iter().filter(|job| wants(job)).count(),
        to_run: queued.len(),
        bytes: queued.iter().map(|queued| queued.bytes).sum(),
        journal: journal.path().to_owned(),
    });

    pool = Pool { scans: false, journal: Some(&journal), fail_fast: options.fail_fast, ..pool };
    let went = Mutex::new(Vec::new());
    let then = |job: &Job, how: Went| {
        let told = end(job, how, &journal, &options.manifest, started);
        tell(listener, &told.1);
        if let Ok(mut went) = went.lock() {
            went.push(told);
        }
    };
    let mut failures: Vec<(&usize, &Failure)> = fixed.failures.iter().collect();
    failures.sort_by_key(|(index, _)| **index);
    for (&index, failure) in failures.into_iter().filter(|(index, _)| wants(&jobs[**index])) {
        let outcome = Outcome::Failed(failure.clone());
        then(&jobs[index], Went { index, outcome, attempts: 1, began: None, ended: Instant::now() });
    }
    let stops = options.fail_fast && went.lock().is_ok_and(|went| !went.is_empty());
    pool.run(if stops { Vec::new() } else { queued }, &then);
    for (index, mut summary) in went.into_inner().unwrap_or_default() {
        summary.reason.clone_from(&results[index].reason);
        results[index] = summary;
    }
    journal.append(&Record::End { at: now() })?;
    journal.sync()?;

    let summary = Summary {
        report: VERSION,
        ferry: env!("CARGO_PKG_VERSION").to_owned(),
        manifest: options.manifest.display().to_string(),
        started: at.clone(),
        seconds: started.elapsed().as_secs_f64(),
        interrupted: cancelled.load(Ordering::Relaxed),
        totals: Totals::of(&results),
        budget: Shared {
            jobs: options.budget.jobs as u64,
            small_jobs: options.budget.places() as u64,
            threads: options.budget.threads as u64,
            memory: options.budget.memory,
        },
        jobs: results,
    };
    listener.hear(&Event::RunEnded {
        totals: &summary.totals,
        interrupted: summary.interrupted,
        seconds: summary.seconds,
    });
    Ok(Ended { exit_code: exit_code(&summary), summary, notes: left_over(&jobs, &history) })
}

/// Looks at units, each in a process; the journal is told what was found.
fn scan_all(units: &[Job], pool: &Pool<'_>, journal: &Journal) -> Result<Vec<Option<Scanned>>> {
    struct Nobody;
    impl Listener for Nobody {
        fn hear(&self, _: &Event<'_>) {}
    }
    let queued = units.iter().enumerate().map(|(index, job)| Queued::new(index, job));
    let found = Mutex::new((vec![None; units.len()], Ok(())));
    let (nobody, of) = (Nobody, units.len());
    Pool { listener: &nobody, ..*pool }.run(queued.collect(), &|job, went| {
        let scanned = match went.outcome {
            Outcome::Scanned(scan) => Ok(*scan),
            Outcome::Failed(failure) => Err(failure),
            Outcome::Cancelled | Outcome::Done { .. } => return,
        };
        let noted = match (&scanned, &job.conversion.unit) {
            (Ok(scan), Some(unit)) => {
                let record = Record::Scanned { key: key(job, unit), scan: Box::new(scan.clone()) };
                fault::reach("journal-scanned").and_then(|()| journal.append(&record).map(drop))
            }
            _ => Ok(()),
        };
        if let Ok(mut found) = found.lock() {
            found.0[went.index] = Some(scanned);
            found.1 = std::mem::replace(&mut found.1, Ok(())).and(noted);
            let scanned = found.0.iter().flatten().count();
            pool.listener.hear(&Event::Scanned { job: &job.name, scanned, of });
        }
    });
    let (found, noted) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    noted.map(|()| found)
}

/// What earlier runs made of units of these data sets that are none any more: who reads the folder reads
/// those too.
fn left_over(jobs: &[Job], history: &History) -> Vec<String> {
    let mut outputs: BTreeMap<&str, HashSet<&str>> = BTreeMap::new();
    for job in jobs {
        if let Some(unit) = &job.conversion.unit {
            outputs.entry(&unit.dataset).or_default().insert(&job.conversion.output);
        }
    }
    let mut left: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for (output, known) in history.outputs() {
        let unit = known.commit.as_ref().and_then(|commit| commit.conversion.unit.as_ref());
        let Some(unit) = unit else { continue };
        let is_none = outputs.get(&*unit.dataset).is_some_and(|units| !units.contains(output));
        if let Some(file) = known.owned.iter().find(|file| is_none && file.exists()) {
            left.entry(&unit.dataset).or_default().push(file);
        }
    }
    let note = |(dataset, files): (&str, Vec<&Path>)| {
        let first = files.iter().min().map(|file| file.display().to_string()).unwrap_or_default();
        format!(
            "{} of the data set {dataset:?} that no unit makes any more: {first}; remove what is not wanted",
            if files.len() == 1 {
                "an output is left".to_owned()
            } else {
                format!("{} outputs are left", files.len())
            }
        )
    };
    left.into_iter().map(note).collect()
}

/// What is known of a job before it runs, and is the last word if it does not.
fn before(job: &Job, verdict: Option<&Verdict>, commit: Option<&Commit>) -> JobSummary {
    let state = match verdict {
        None => State::LeftOut,
        Some(Verdict::Run(_)) => State::Cancelled,
        Some(Verdict::Unchanged { .. }) => State::Unchanged,
    };
    let made = commit.filter(|_| state == State::Unchanged).map(|commit| commit.made.summary.clone());
    JobSummary {
        state,
        reason: verdict.map(Verdict::reason),
        name: job.name.clone(),
        input: job.conversion.input.clone(),
        output: job.conversion.output.clone(),
        ..made.unwrap_or_default()
    }
}

/// What a job came to, with its place; the journal is told.
fn end(job: &Job, how: Went, journal: &Journal, manifest: &Path, started: Instant) -> (usize, JobSummary) {
    let output = &job.conversion.output;
    let mut summary = JobSummary {
        name: job.name.clone(),
        input: job.conversion.input.clone(),
        output: output.clone(),
        from: job.conversion.from.clone(),
        to: job.conversion.to.clone(),
        ..JobSummary::default()
    };
    match how.outcome {
        Outcome::Done { summary: done, .. } => {
            // The output is there and the journal has its commit: that the end of it cannot be noted is no
            // failure of the job, and a journal that cannot be written ends the run at the next record.
            let _ = journal.done(output);
            summary = JobSummary { state: State::Done, output: output.clone(), ..*done };
        }
        Outcome::Failed(mut failure) => {
            failure.retry = Some(format!("ferry run {} --only {}", quoted(manifest), quoted_name(&job.name)));
            let _ = journal.append(&Record::Failed {
                at: now(),
                output: output.clone(),
                reason: in_one_line(&failure),
            });
            summary.state = State::Failed;
            summary.failure = Some(failure);
        }
        Outcome::Cancelled | Outcome::Scanned(_) => summary.state = State::Cancelled,
    }
    summary.attempts = how.attempts;
    summary.started = how.began.map(|began| began.duration_since(started).as_secs_f64());
    summary.seconds = how.began.map_or(0.0, |began| how.ended.duration_since(began).as_secs_f64());
    (how.index, summary)
}

fn tell(listener: &dyn Listener, summary: &JobSummary) {
    listener.hear(&match summary.state {
        State::Failed => Event::JobFailed { job: summary },
        State::Cancelled => Event::JobCancelled { job: &summary.name },
        _ => Event::JobDone { job: summary },
    });
}

/// A failure as one line.
#[must_use]
pub fn in_one_line(failure: &Failure) -> String {
    let details: String = failure.details.iter().map(|(name, text)| format!(", {name} {text}")).collect();
    format!("{}: {}{details}", failure.kind, failure.message).replace('\n', " ")
}

fn exit_code(summary: &Summary) -> u8 {
    let failures: Vec<&Failure> = summary.jobs.iter().filter_map(|job| job.failure.as_ref()).collect();
    let is_passing = |failure: &&Failure| failure.exit_code == Some(i32::from(TRANSIENT));
    if summary.interrupted {
        INTERRUPTED
    } else if failures.is_empty() {
        0
    } else if failures.iter().all(is_passing) {
        // Nothing is wrong with the jobs: the same run may do them later.
        TRANSIENT
    } else {
        REFUSED
    }
}

/// About how many bytes an input has, to tell big jobs from small ones.
pub(super) fn weigh(input: &Path) -> u64 {
    const INDEX: u64 = 1 << 20;
    let Ok(meta) = std::fs::metadata(input) else { return of_names(input, &file_name(input)) };
    if meta.is_dir() {
        return of_folder(input, 0);
    }
    let name = file_name(input);
    match name.split_once(".index") {
        // An index is small, and what it names is not.
        Some((stem, _)) if meta.len() < INDEX => of_names(input, stem.split('.').next().unwrap_or(stem)),
        _ => meta.len(),
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn of_names(input: &Path, start: &str) -> u64 {
    let folder = input.parent().unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(start));
    named
        .filter_map(|entry| std::fs::metadata(entry.path()).ok())
        .filter(|m| m.is_file())
        .map(|m| m.len())
        .sum()
}

fn of_folder(folder: &Path, depth: usize) -> u64 {
    const DEEPEST: usize = 8;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match std::fs::metadata(entry.path()) {
        Ok(meta) if meta.is_file() => meta.len(),
        Ok(meta) if meta.is_dir() && depth < DEEPEST => of_folder(&entry.path(), depth + 1),
        _ => 0,
    });
    sizes.sum()
}

fn quoted(path: &Path) -> String {
    quoted_name(&path.display().to_string())
}

/// For a shell.
fn quoted_name(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_what_was_meant() {
        assert_eq!(quoted_name("zoo/a.pt"), "zoo/a.pt");
        assert_eq!(quoted_name("it's *"), "'it'\\''s *'");
    }

    #[test]
    fn exit_codes_of_a_run() {
        let failed = |code| JobSummary {
            state: State::Failed,
            failure: Some(Failure { exit_code: code, ..Failure::default() }),
            ..JobSummary::default()
        };
        let of = |jobs: Vec<JobSummary>| exit_code(&Summary { jobs, ..Summary::default() });
        assert_eq!(of(vec![JobSummary::default()]), 0);
        assert_eq!(of(vec![failed(Some(75))]), 75);
        assert_eq!(of(vec![failed(Some(75)), failed(Some(2))]), 3);
        assert_eq!(of(vec![failed(None)]), 3);
    }
}
