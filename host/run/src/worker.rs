//! A worker is the process that does jobs, one after the other, for a runner: `ferry job`, which is not
//! for people. It dies with the runner.

use super::found::{Placed, listing};
use super::protocol::{Answer, Made, Said, Task};
use super::scan::scan;
use super::summary::{Failure, JobSummary, State};
use crate::exit::exit_code;
use rustix::process::{
    Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};
use rustix::stdio::{dup2_stdin, dup2_stdout, stderr, stdin, stdout};
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tensorferry::engine::context::loss::LossRecord;
use tensorferry::engine::context::session::Session;
use tensorferry::engine::convert::convert;
use tensorferry::engine::convert::report::Report;
use tensorferry::engine::convert::watch::{Ready, Watch};
use tensorferry::engine::formats::registry::Registry;
use tensorferry::engine::publish::stage::Kind;
use tensorferry_sdk::{Error, Result};

/// How often a job says how far it is.
const TICK: Duration = Duration::from_millis(200);

/// Does the jobs that come over the standard input, until it ends. `runner` is the process that started
/// this one, and with which it ends.
///
/// # Errors
/// I/o, if the runner cannot be talked to.
pub fn work(registry: &Registry, session: &Session, runner: u32) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|e| Error::from(std::io::Error::from(e)))?;
    let parent = getppid().map(|pid| pid.as_raw_pid());
    if parent.and_then(|pid| u32::try_from(pid).ok()) != Some(runner) {
        // It was gone before the system could be told.
        return Err(Error::cancelled("the runner has ended"));
    }
    // Should the memory end, the kernel takes a job and not the runner.
    let _ = std::fs::write("/proc/self/oom_score_adj", "500");
    let channel = Channel::take()?;
    // Jobs that want as many threads as the one before take them over.
    let mut threads = session.below(session.threads, session.memory, None);
    while let Some(task) = channel.receive::<Task>()? {
        if threads.threads != task.threads {
            threads = session.below(task.threads, session.memory, None);
        }
        limit_memory(task.limit);
        let of_job = threads.below(task.threads, task.memory, task.rate);
        let done = of_job.install(|| perform(&task, registry, &of_job, &channel));
        channel.send(&done.unwrap_or_else(|error| Said::Failed {
            failure: Failure::of(&error, exit_code(error.kind())),
        }))?;
    }
    Ok(())
}

/// The way to the runner. Whatever else a plugin prints goes to the standard error.
struct Channel {
    input: Mutex<BufReader<File>>,
    output: Mutex<File>,
}

impl Channel {
    fn take() -> Result<Self> {
        let failed = |e: std::io::Error| Error::from(e).context("cannot talk to the runner");
        let own = |fd| rustix::io::fcntl_dupfd_cloexec(fd, 3).map_err(|e| failed(e.into()));
        let (input, output) = (own(stdin())?, own(stdout())?);
        let nothing = File::open("/dev/null").map_err(failed)?;
        dup2_stdin(nothing).map_err(|e| failed(e.into()))?;
        dup2_stdout(stderr()).map_err(|e| failed(e.into()))?;
        Ok(Self { input: Mutex::new(BufReader::new(input.into())), output: Mutex::new(output.into()) })
    }

    /// One document; none if the runner has nothing more.
    fn receive<T: serde::de::DeserializeOwned>(&self) -> Result<Option<T>> {
        let mut line = String::new();
        let mut input = self.input.lock().map_err(|_| Error::io("the runner's pipe"))?;
        if input.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        serde_json::from_str(&line).map(Some).map_err(|e| Error::io(format!("the runner's words: {e}")))
    }

    fn send(&self, said: &Said) -> Result<()> {
        let mut line = serde_json::to_vec(said).map_err(|e| Error::io(e.to_string()))?;
        line.push(b'\n');
        let mut output = self.output.lock().map_err(|_| Error::io("the runner's pipe"))?;
        Ok(output.write_all(&line)?)
    }
}

fn perform(task: &Task, registry: &Registry, session: &Session, channel: &Channel) -> Result<Said> {
    if let Some(unit) = task.job.conversion.unit.as_ref().filter(|_| task.scan) {
        return Ok(Said::Scanned { scan: Box::new(scan(&task.job, unit, registry, session)?) });
    }
    let request = task.job.request(!task.owned.is_empty() || task.forces(), task.dry_run);
    let observer = Observer { task, channel, bytes_in: AtomicU64::new(0), refused: AtomicBool::new(false) };
    let over = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        let teller = scope.spawn(|| observer.tell(session, &over));
        let report = convert(&request, registry, session, &observer);
        over.store(true, Ordering::Relaxed);
        teller.thread().unpark();
        report
    });
    if let Some(failure) = task.refused.as_ref().filter(|_| observer.refused.load(Ordering::Relaxed)) {
        return Ok(Said::Failed { failure: failure.clone() });
    }
    let report = report?;
    let bytes_in = observer.bytes_in.load(Ordering::Relaxed);
    let summary = JobSummary { bytes_in, ..summary(task, &report) };
    Ok(Said::Done { summary: Box::new(summary), files: report.files })
}

impl Task {
    fn forces(&self) -> bool {
        self.job.care.force == super::job::Force::Always
    }
}

fn summary(task: &Task, report: &Report) -> JobSummary {
    JobSummary {
        state: State::Done,
        name: task.job.name.clone(),
        input: task.job.conversion.input.clone(),
        output: report.output.display().to_string(),
        from: report.readers.first().map(|used| used.id.clone()),
        to: Some(report.format.clone()),
        bytes_out: report.bytes,
        tensors: (!report.holds_records).then_some(report.tensors),
        records: report.records,
        losses: report.losses.iter().map(|loss| LossRecord::of(loss).into_owned()).collect(),
        notes: report.notes.clone(),
        verified: report.verified,
        receipt: report.receipt.as_ref().map(|path| path.display().to_string()),
        ..JobSummary::default()
    }
}

/// Tells the runner how a conversion goes, and asks it before the commit.
struct Observer<'a> {
    task: &'a Task,
    channel: &'a Channel,
    bytes_in: AtomicU64,
    /// Whether it was stopped for what the task says.
    refused: AtomicBool,
}

impl Observer<'_> {
    fn tell(&self, session: &Session, over: &AtomicBool) {
        let mut last = 0;
        while !over.load(Ordering::Relaxed) {
            std::thread::park_timeout(TICK);
            let bytes = session.moved.load(Ordering::Relaxed);
            // A runner that is gone has taken this process with it.
            if bytes != last
                && !over.load(Ordering::Relaxed)
                && self.channel.send(&Said::Moved { bytes }).is_err()
            {
                break;
            }
            last = bytes;
        }
    }
}

impl Watch for Observer<'_> {
    fn begun(&self, bytes: u64) {
        let _ = self.channel.send(&Said::Began { bytes });
    }

    fn before_commit(&self, ready: &Ready<'_>) -> Result<()> {
        if self.task.refused.is_some() {
            self.refused.store(true, Ordering::Relaxed);
            return Err(Error::cancelled("refused"));
        }
        let made = made(self.task, ready)?;
        self.bytes_in.store(made.summary.bytes_in, Ordering::Relaxed);
        self.channel.send(&Said::Ready { made: Box::new(made) })?;
        match self.channel.receive::<Answer>()? {
            Some(Answer::Commit) => Ok(()),
            Some(Answer::Stop) | None => {
                Err(Error::cancelled("the runner gave the job up before its commit"))
            }
        }
    }
}

fn made(task: &Task, ready: &Ready<'_>) -> Result<Made> {
    let placed = |list: &[(std::path::PathBuf, tensorferry::engine::read::identity::FileIdentity)]| -> Result<Vec<Placed>> {
        let of = |(path, identity): &(std::path::PathBuf, _)| -> Result<Placed> {
            let path = std::path::absolute(path)?;
            Ok(Placed { path, identity: *identity })
        };
        list.iter().map(of).collect()
    };
    let mut inputs = placed(&ready.inputs)?;
    inputs.sort_by(|a, b| a.path.cmp(&b.path));
    inputs.dedup();
    let is_other = |was: &&Placed| inputs.iter().any(|now| now.path == was.path && now != *was);
    if let Some(was) = task.scanned.iter().find(is_other) {
        return Err(Error::transient("the file changed since the data set's schema was found")
            .file(was.path.display().to_string()));
    }
    // The schema is the host's own: another one has another name.
    let schema = task.job.conversion.unit.as_ref().and_then(|unit| unit.schema.as_ref());
    inputs.retain(|placed| Some(&placed.path) != schema);
    let outputs = placed(&ready.outputs)?;
    if task.job.care.force == super::job::Force::Own {
        check_owned(task, &outputs)?;
    }
    let without: HashSet<&Path> = outputs.iter().map(|placed| &*placed.path).collect();
    let mut summary = summary(task, ready.report);
    summary.bytes_in = inputs.iter().map(|placed| placed.identity.len).sum();
    summary.bytes_out = outputs.iter().map(|placed| placed.identity.len).sum();
    Ok(Made {
        folder: ready.destination.folder.clone(),
        name: match &ready.destination.kind {
            Kind::Beside { name } => Some(name.clone()),
            Kind::Folder => None,
        },
        readers: ready.report.readers.clone(),
        writer: ready.writer.clone(),
        listing: listing(Path::new(&task.job.conversion.input), &without),
        inputs,
        outputs,
        summary,
    })
}

/// What is replaced must be what an earlier run has written.
fn check_owned(task: &Task, outputs: &[Placed]) -> Result<()> {
    let is_foreign = |placed: &&Placed| {
        std::fs::symlink_metadata(&placed.path).is_ok() && !task.owned.contains(&placed.path)
    };
    match outputs.iter().find(is_foreign) {
        None => Ok(()),
        Some(placed) => Err(Error::usage(
            "exists, and the journal does not say that a run has written it: move it, or set force = \"always\"",
        )
        .file(placed.path.display().to_string())),
    }
}

/// Bounds what the process may allocate beyond what it has now. Where that cannot be set, the job runs
/// without.
fn limit_memory(bytes: u64) {
    let limits = getrlimit(Resource::Data);
    let current = Some(allocated().saturating_add(bytes));
    let _ = setrlimit(Resource::Data, Rlimit { current, maximum: limits.maximum });
}

/// What counts against the limit: private writable memory, as `/proc/self/status` has it.
fn allocated() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmData:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()).and_then(|text| text.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
