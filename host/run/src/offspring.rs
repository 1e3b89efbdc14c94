//! An offspring is a process that does jobs for the runner, one at a time: started when it is first
//! needed, and never used again once a job of it has gone wrong in a way that it could not tell.

use super::event::{Event, Listener};
use super::journal::{Journal, Record};
use super::protocol::{Answer, Said, Task};
use super::scan::Scan;
use super::summary::{Failure, JobSummary};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tensorferry::engine::context::fault;
use tensorferry::engine::receipt::now;
use tensorferry_sdk::{Error, Result};

/// Jobs that one process does: what a plugin leaks ends with it.
const MOST_JOBS: u32 = 256;
/// How often the runner looks whether it has been cancelled.
const TICK: Duration = Duration::from_millis(100);
/// How long a job has to end by itself when the run is cancelled.
const GRACE: Duration = Duration::from_secs(5);
/// What Rust's allocator says last.
const OUT_OF_MEMORY: &str = "memory allocation of";
/// So much of what a process said last is kept, to tell why it died.
const TAIL: usize = 4096;

/// A process.
pub(super) struct Offspring {
    process: Child,
    to: ChildStdin,
    said: Receiver<Said>,
    tail: Arc<Mutex<Vec<u8>>>,
    tail_ends: JoinHandle<()>,
    jobs: u32,
}

/// How a job ended.
pub(super) enum Outcome {
    /// Its output is visible; or it is planned.
    Done { summary: Box<JobSummary>, files: Vec<(PathBuf, u64)> },
    /// Its unit was looked at.
    Scanned(Box<Scan>),
    /// It is not.
    Failed(Failure),
    /// The user ended the run before it was.
    Cancelled,
}

/// What a job's process is given beside the job.
pub(super) struct Supervision<'a> {
    /// None, if nothing will be committed.
    pub(super) journal: Option<&'a Journal>,
    pub(super) listener: &'a dyn Listener,
    pub(super) cancelled: &'a AtomicBool,
    pub(super) timeout: Option<Duration>,
}

/// How processes are started: the program, and what stands before `job`.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl Offspring {
    /// Starts one. The thread that does must live longer: the system ends the process with it.
    pub(super) fn start(launch: &Launch) -> Result<Self> {
        let mut command = Command::new(&launch.program);
        command.args(&launch.arguments).args(["job", "--runner", &std::process::id().to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |e: std::io::Error| Error::from(e).context("cannot start a job's process");
        let mut process = command.spawn().map_err(failed)?;
        let (Some(to), Some(out), Some(err)) =
            (process.stdin.take(), process.stdout.take(), process.stderr.take())
        else {
            return Err(Error::io("a job's process has no pipes"));
        };
        let tail = Arc::new(Mutex::new(Vec::new()));
        let (sender, said) = channel();
        std::thread::spawn(move || hear(out, |line| sender.send(line).is_ok()));
        let kept = tail.clone();
        let tail_ends = std::thread::spawn(move || keep_tail(err, &kept));
        Ok(Self { process, to, said, tail, tail_ends, jobs: 0 })
    }

    /// Has it do a job. The second value: whether it can do another.
    pub(super) fn perform(mut self, task: &Task, by: &Supervision<'_>) -> (Outcome, Option<Self>) {
        self.jobs += 1;
        if self.send(task).is_err() {
            return (self.died(None), None);
        }
        let deadline = by.timeout.map(|time| Instant::now() + time);
        let mut patience: Option<Instant> = None;
        let name = &task.job.name;
        loop {
            let said = match self.said.recv_timeout(TICK) {
                Ok(said) => said,
                Err(RecvTimeoutError::Disconnected) if patience.is_some() => {
                    self.end();
                    return (Outcome::Cancelled, None);
                }
                Err(RecvTimeoutError::Disconnected) => return (self.died(Some(task.limit)), None),
                Err(RecvTimeoutError::Timeout) => {
                    let now = Instant::now();
                    if deadline.is_some_and(|deadline| now > deadline) {
                        self.end();
                        return (Outcome::Failed(timed_out(by.timeout.unwrap_or_default())), None);
                    }
                    match patience {
                        None if by.cancelled.load(Ordering::Relaxed) => {
                            patience = Some(now + GRACE);
                            self.signal(Signal::TERM);
                        }
                        Some(end) if now > end => {
                            self.end();
                            return (Outcome::Cancelled, None);
                        }
                        _ => {}
                    }
                    continue;
                }
            };
            match said {
                Said::Began { bytes } => by.listener.hear(&Event::JobBytes { job: name, bytes }),
                Said::Moved { bytes } => by.listener.hear(&Event::JobMoved { job: name, bytes }),
                Said::Ready { made } => {
                    let answer = match by.journal.filter(|_| !by.cancelled.load(Ordering::Relaxed)) {
                        Some(journal) => {
                            let record = Record::Commit {
                                at: now(),
                                output: task.job.conversion.output.clone(),
                                conversion: Box::new(task.job.conversion.clone()),
                                made,
                            };
                            let noted = fault::reach("journal-commit")
                                .and_then(|()| journal.append_synced(&record))
                                .and_then(|()| fault::reach("journal-commit-written"));
                            if let Err(error) = noted {
                                self.end();
                                return (Outcome::Failed(Failure::of(&error, 5)), None);
                            }
                            Answer::Commit
                        }
                        None => Answer::Stop,
                    };
                    if self.send(&answer).is_err() {
                        return (self.died(None), None);
                    }
                }
                Said::Scanned { scan } => return (Outcome::Scanned(scan), self.again()),
                Said::Done { summary, files } => return (Outcome::Done { summary, files }, self.again()),
                Said::Failed { failure } => {
                    let was_cancelled = failure.exit_code == Some(i32::from(crate::exit::INTERRUPTED));
                    if was_cancelled && by.cancelled.load(Ordering::Relaxed) {
                        self.end();
                        return (Outcome::Cancelled, None);
                    }
                    return (Outcome::Failed(failure), self.again());
                }
            }
        }
    }

    fn again(mut self) -> Option<Self> {
        if self.jobs < MOST_JOBS {
            return Some(self);
        }
        self.end();
        None
    }

    fn send(&mut self, words: &impl serde::Serialize) -> Result<()> {
        let mut line = serde_json::to_vec(words).map_err(|e| Error::io(e.to_string()))?;
        line.push(b'\n');
        Ok(self.to.write_all(&line)?)
    }

    fn signal(&self, signal: Signal) {
        // It may have ended by itself.
        let _ = kill_process(Pid::from_child(&self.process), signal);
    }

    /// Ends it, whatever it does.
    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Why it ended before it said how the job went.
    fn died(mut self, limit: Option<u64>) -> Outcome {
        // Its pipe is closed: it is ending, and a kill changes nothing of how; or it cannot be talked to.
        let _ = self.process.kill();
        let status = self.process.wait();
        // A process that it has left behind may hold the pipe open.
        let patience = Instant::now() + TICK;
        while !self.tail_ends.is_finished() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&tail);
        let mut lines = text.lines().rev().map(str::trim).filter(|line| !line.is_empty());
        // What the allocator says is followed by words about the abort.
        let of_memory = lines.clone().find(|line| line.contains(OUT_OF_MEMORY));
        let last = of_memory.or_else(|| lines.next()).unwrap_or_default();
        Outcome::Failed(crashed(status.ok(), last, limit))
    }
}

impl Drop for Offspring {
    fn drop(&mut self) {
        self.end();
    }
}

fn hear(out: ChildStdout, mut tell: impl FnMut(Said) -> bool) {
    for line in BufReader::new(out).lines() {
        let Ok(line) = line else { return };
        let Ok(said) = serde_json::from_str(&line) else { return };
        if !tell(said) {
            return;
        }
    }
}

fn keep_tail(mut err: ChildStderr, kept: &Mutex<Vec<u8>>) {
    let mut buffer = [0; 1024];
    while let Ok(read @ 1..) = err.read(&mut buffer) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(&buffer[..read]);
        let too_many = kept.len().saturating_sub(TAIL);
        kept.drain(..too_many);
    }
}

fn timed_out(after: Duration) -> Failure {
    Failure {
        kind: "timed out".to_owned(),
        message: format!("not done after {} s: its process was ended", after.as_secs_f64()),
        ..Failure::default()
    }
}

fn crashed(status: Option<ExitStatus>, last: &str, limit: Option<u64>) -> Failure {
    let signal = status.and_then(|status| status.signal());
    let how = match (signal, status.and_then(|status| status.code())) {
        (Some(9), _) => {
            "its process was killed with SIGKILL, by a person, or by the kernel for want of memory".to_owned()
        }
        (Some(signal), _) => format!("its process was ended by {}", named(signal)),
        (None, Some(code)) => format!("its process ended by itself with exit code {code}"),
        (None, None) => "its process ended".to_owned(),
    };
    let mut details = Vec::new();
    if !last.is_empty() {
        details.push(("last words".to_owned(), last.to_owned()));
    }
    if let Some(limit) = limit.filter(|_| last.contains(OUT_OF_MEMORY)) {
        details.push(("memory limit".to_owned(), format!("{} MiB", limit >> 20)));
    }
    Failure { signal, kind: "crashed".to_owned(), message: how, details, ..Failure::default() }
}

fn named(signal: i32) -> String {
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
