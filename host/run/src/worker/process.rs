//! A worker process from the viewpoint of the runner. The process is started when it is first
//! needed, and performs one job at a time.
//!
//! If a job crashes, hangs or is cancelled, its process is ended and not reused.

use super::protocol::{CommitReply, WorkerEvent, WorkerTask};
use crate::events::{Event, EventListener};
use crate::exit::{ENVIRONMENT, INTERRUPTED};
use crate::journal::{GroupScan, Journal, Record, StampedFile};
use crate::report::{JobFailure, JobSummary};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tensorferry::remote;
use tensorferry_convert::receipt::now;
use tensorferry_core::context::fault;
use tensorferry_sdk::{Error, Result};

/// Maximum number of jobs per process, which limits the effect of memory leaks in plugins.
const MAX_JOBS: u32 = 256;
/// Interval at which the runner checks whether it has been cancelled.
const TICK: Duration = Duration::from_millis(100);
/// Time within which a job must end after the run is cancelled.
const GRACE: Duration = Duration::from_secs(5);
/// Part of the message that Rust's allocator prints when memory is exhausted.
const OUT_OF_MEMORY: &str = "memory allocation of";
/// Number of bytes that are kept from the end of a process's standard error. These bytes help to
/// determine why the process crashed.
const TAIL: usize = 4096;

/// A process that performs jobs.
pub(crate) struct WorkerProcess {
    process: Child,
    input: ChildStdin,
    events: Receiver<WorkerEvent>,
    /// The last bytes of the process's standard error.
    tail: Arc<Mutex<Vec<u8>>>,
    tail_reader: JoinHandle<()>,
    jobs: u32,
}

pub(crate) enum JobOutcome {
    /// The output is visible. In a dry run, the output is planned.
    Done {
        summary: Box<JobSummary>,
        files: Vec<(PathBuf, u64)>,
        outputs: Vec<StampedFile>,
    },
    Scanned(Box<GroupScan>),
    /// The job failed, and its output is not visible.
    Failed(JobFailure),
    /// The user ended the run before the job was finished.
    Cancelled,
}

/// The runner's context while a process performs a job.
pub(crate) struct Supervision<'a> {
    /// The journal of the run, or `None` if no output will be committed.
    pub(crate) journal: Option<&'a Journal>,
    pub(crate) listener: &'a dyn EventListener,
    pub(crate) cancelled: &'a AtomicBool,
    pub(crate) timeout: Option<Duration>,
    /// The job's key, if it is a planned job.
    pub(crate) key: Option<&'a str>,
}

/// The command that starts worker processes.
#[derive(Debug, Clone)]
pub struct WorkerCommand {
    pub program: PathBuf,
    /// Arguments that come before the argument `job`.
    pub arguments: Vec<OsString>,
    /// The settings for stores. The settings are passed in environment variables, because some
    /// settings are secret.
    pub stores: Vec<String>,
}

impl WorkerProcess {
    /// Starts a process. The calling thread must outlive the process, because the system ends the
    /// process when that thread ends.
    pub(crate) fn start(worker: &WorkerCommand) -> Result<Self> {
        let mut command = Command::new(&worker.program);
        command.args(&worker.arguments).args(["job", "--runner", &std::process::id().to_string()]);
        let (variable, stores) = remote::variable(&worker.stores);
        command.env(variable, stores).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |e: std::io::Error| Error::from(e).context("cannot start a job's process");
        let mut process = command.spawn().map_err(failed)?;
        let (Some(input), Some(stdout), Some(stderr)) =
            (process.stdin.take(), process.stdout.take(), process.stderr.take())
        else {
            return Err(Error::io("a job's process has no pipes"));
        };
        let (sender, events) = channel();
        std::thread::spawn(move || read_events(stdout, &sender));
        let tail = Arc::new(Mutex::new(Vec::new()));
        let kept = tail.clone();
        let tail_reader = std::thread::spawn(move || keep_tail(stderr, &kept));
        Ok(Self { process, input, events, tail, tail_reader, jobs: 0 })
    }

    /// Runs a job in the process, and returns the outcome. Also returns the process if it can run
    /// more jobs.
    pub(crate) fn perform(mut self, task: &WorkerTask, by: &Supervision<'_>) -> (JobOutcome, Option<Self>) {
        self.jobs += 1;
        if self.send(task).is_err() {
            return (self.crash(None), None);
        }
        let deadline = by.timeout.map(|time| Instant::now() + time);
        // This time is set when the run is cancelled. If the process has not ended by then, it is
        // killed.
        let mut kill_at: Option<Instant> = None;
        // The reason why the job's commit could not be recorded.
        let mut given_up: Option<JobFailure> = None;
        let name = task.job.name.as_str();
        loop {
            let event = match self.events.recv_timeout(TICK) {
                Ok(event) => event,
                Err(RecvTimeoutError::Disconnected) if kill_at.is_some() => {
                    return self.ended(stopped(given_up));
                }
                Err(RecvTimeoutError::Disconnected) => return (self.crash(Some(task.limit)), None),
                Err(RecvTimeoutError::Timeout) => {
                    let now = Instant::now();
                    if deadline.is_some_and(|deadline| now > deadline) {
                        return self.ended(JobOutcome::Failed(timed_out(by.timeout.unwrap_or_default())));
                    }
                    match kill_at {
                        None if by.cancelled.load(Ordering::Relaxed) => {
                            kill_at = Some(now + GRACE);
                            // The process may already have ended.
                            let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
                        }
                        Some(end) if now > end => return self.ended(stopped(given_up)),
                        _ => {}
                    }
                    continue;
                }
            };
            let outcome = match event {
                WorkerEvent::Reads { bytes, of } => {
                    by.listener.on_event(&Event::JobReads { name, bytes, of });
                    continue;
                }
                WorkerEvent::Began { bytes } => {
                    by.listener.on_event(&Event::JobBytes { name, bytes });
                    continue;
                }
                WorkerEvent::Moved { bytes } => {
                    by.listener.on_event(&Event::JobMoved { name, bytes });
                    continue;
                }
                event @ (WorkerEvent::Ready { .. } | WorkerEvent::Visible { .. }) => {
                    let output = task.job.output().to_owned();
                    let record = match event {
                        WorkerEvent::Visible { outputs } => Record::Visible { output, outputs },
                        WorkerEvent::Ready { made } => {
                            let request = Box::new(task.job.content_request());
                            let key = by.key.map(str::to_owned);
                            Record::Commit { at: now(), output, key, request, made }
                        }
                        _ => continue,
                    };
                    match allow_commit(by, &record).map(|reply| self.send(&reply)) {
                        Ok(Ok(())) => continue,
                        Ok(Err(_)) => return (self.crash(None), None),
                        Err(error) => {
                            let exit_code = Some(i32::from(ENVIRONMENT));
                            given_up = Some(JobFailure { exit_code, ..JobFailure::of(&error) });
                            // Gives the process time to remove its staged files.
                            kill_at = Some(Instant::now() + GRACE);
                            match self.send(&CommitReply::Stop) {
                                Ok(()) => continue,
                                Err(_) => return self.ended(stopped(given_up)),
                            }
                        }
                    }
                }
                WorkerEvent::Scanned { scan } => JobOutcome::Scanned(scan),
                WorkerEvent::Done { summary, files, outputs } => JobOutcome::Done { summary, files, outputs },
                WorkerEvent::Failed { .. } if given_up.is_some() => stopped(given_up),
                WorkerEvent::Failed { failure } => {
                    let was_cancelled = failure.exit_code == Some(i32::from(INTERRUPTED));
                    if was_cancelled && by.cancelled.load(Ordering::Relaxed) {
                        return self.ended(JobOutcome::Cancelled);
                    }
                    JobOutcome::Failed(failure)
                }
            };
            return if self.jobs < MAX_JOBS { (outcome, Some(self)) } else { self.ended(outcome) };
        }
    }

    fn ended(mut self, outcome: JobOutcome) -> (JobOutcome, Option<Self>) {
        self.kill();
        (outcome, None)
    }

    fn send(&mut self, document: &impl serde::Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(document).map_err(|e| Error::io(e.to_string()))?;
        line.push(b'\n');
        Ok(self.input.write_all(&line)?)
    }

    fn kill(&mut self) -> Option<ExitStatus> {
        let _ = self.process.kill();
        self.process.wait().ok()
    }

    /// Determines why the process ended before it reported the result of the job.
    fn crash(mut self, limit: Option<u64>) -> JobOutcome {
        // The pipe is closed, so the process is ending or no longer reads from the pipe. If the
        // process is already ending, the kill does not change its exit status.
        let status = self.kill();
        // Waits only for a limited time, because a child of the process may keep the pipe open.
        let until = Instant::now() + TICK;
        while !self.tail_reader.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&tail);
        let mut lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
        // The process prints more lines about the abort after the line of the allocator.
        let of_memory = lines.clone().find(|line| line.contains(OUT_OF_MEMORY));
        let last = of_memory.or_else(|| lines.next()).unwrap_or_default();
        JobOutcome::Failed(crashed(status, last, limit))
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Records in the journal what is about to become visible. Refuses the commit if there is no
/// journal, or if the run is cancelled.
fn allow_commit(by: &Supervision<'_>, record: &Record) -> Result<CommitReply> {
    let Some(journal) = by.journal.filter(|_| !by.cancelled.load(Ordering::Relaxed)) else {
        return Ok(CommitReply::Stop);
    };
    let recorded = fault::reach("journal-commit").and_then(|()| journal.append_synced(record));
    recorded.and_then(|()| fault::reach("journal-commit-written")).map_err(|error| journal.give_up(error))?;
    Ok(CommitReply::Commit)
}

/// Returns the outcome of a job that was stopped. If a reason is known, the outcome is a failure.
fn stopped(why: Option<JobFailure>) -> JobOutcome {
    why.map_or(JobOutcome::Cancelled, JobOutcome::Failed)
}

fn read_events(stdout: ChildStdout, events: &Sender<WorkerEvent>) {
    for line in BufReader::new(stdout).lines() {
        let Ok(line) = line else { return };
        let Ok(event) = serde_json::from_str(&line) else { return };
        if events.send(event).is_err() {
            return;
        }
    }
}

fn keep_tail(mut stderr: ChildStderr, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 1024];
    while let Ok(read @ 1..) = stderr.read(&mut buffer) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..read]);
        let too_many = kept.len().saturating_sub(TAIL);
        kept.drain(..too_many);
    }
}

fn timed_out(after: Duration) -> JobFailure {
    JobFailure {
        kind: "timed out".to_owned(),
        message: format!("the job was stopped after its timeout of {} s", after.as_secs_f64()),
        ..JobFailure::default()
    }
}

fn crashed(status: Option<ExitStatus>, last: &str, limit: Option<u64>) -> JobFailure {
    let signal = status.and_then(|status| status.signal());
    let message = match (signal, status.and_then(|status| status.code())) {
        (Some(9), _) => {
            "its process was killed with SIGKILL, by a user or because the system ran out of memory"
                .to_owned()
        }
        (Some(signal), _) => format!("its process was killed by {}", signal_name(signal)),
        (None, Some(code)) => format!("its process ended with exit code {code}"),
        (None, None) => "its process ended".to_owned(),
    };
    let mut details = Vec::new();
    if !last.is_empty() {
        details.push(("last words".to_owned(), last.to_owned()));
    }
    if let Some(limit) = limit.filter(|_| last.contains(OUT_OF_MEMORY)) {
        details.push(("memory limit".to_owned(), format!("{} MiB", limit >> 20)));
    }
    JobFailure { signal, kind: "crashed".to_owned(), message, details, ..JobFailure::default() }
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        11 => "SIGSEGV",
        15 => "SIGTERM",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}
