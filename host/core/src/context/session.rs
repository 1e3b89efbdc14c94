//! A session contains the resources and the state of one or several conversions: threads, memory,
//! limits, a cancel token, notes, and progress.
//!
//! `--memory` bounds the buffers of a conversion. In addition, the catalog and the copy plan use
//! memory that grows with the number of tensors, but not with the size of the tensors.

use crate::context::folder_names::FolderNames;
use crate::context::process_pool::ProcessPool;
use crate::context::remote::Remote;
use crate::context::windows::size;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tensorferry_sdk::{Context, Level, Limits, Result};

/// Resources and limits for one or several conversions.
#[derive(Debug)]
pub struct Session {
    /// Limits that protect against hostile input.
    pub limits: Limits,
    /// Number of threads that copy data.
    pub threads: usize,
    /// Maximum total size of the buffers of all threads, in bytes.
    pub memory: u64,
    /// Maximum copy rate in bytes per second, if the rate is limited.
    pub rate: Option<u64>,
    /// The object that opens inputs that are URLs; `None` if all inputs are paths.
    pub remote: Option<Arc<dyn Remote>>,
    /// Which links in an input's folder are followed.
    pub links: LinkRules,
    started: Instant,
    cancelled: Arc<AtomicBool>,
    notes: Mutex<Vec<String>>,
    /// Number of bytes copied so far, for the progress bar.
    pub moved: AtomicU64,
    /// Total bytes to copy, for all conversions that have started.
    expected: AtomicU64,
    /// The threads, which are started on first use. Sessions with the same number of threads share
    /// these threads.
    pool: Arc<ProcessPool>,
    /// The names that output folders contained at the start, if the session serves many jobs.
    folders: Option<Arc<FolderNames>>,
    /// Progress of checks in bytes; shared with child sessions.
    checks: Arc<ProgressCounter>,
    /// Progress of a long plugin call in bytes; shared with child sessions.
    call: Arc<ProgressCounter>,
    /// Progress of reading rows, in bytes of the input files; shared with child sessions.
    reads: Arc<ProgressCounter>,
}

/// The user's options for links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkRules {
    /// `--follow-links`: weights and records may be links to files elsewhere.
    pub follow: bool,
    /// The folder that was searched for the input, if the user did not name the input itself. Links
    /// may lead into this folder.
    pub root: Option<PathBuf>,
}

/// A progress counter: bytes done and bytes expected.
#[derive(Debug, Default)]
struct ProgressCounter {
    expected: AtomicU64,
    done: AtomicU64,
}

impl Session {
    /// Returns a session with `threads` threads and at most `memory` bytes of buffers.
    #[must_use]
    pub fn new(threads: usize, memory: u64) -> Self {
        Self {
            limits: within(Limits::default(), memory),
            threads: threads.max(1),
            memory,
            rate: None,
            remote: None,
            links: LinkRules::default(),
            started: Instant::now(),
            cancelled: Arc::default(),
            notes: Mutex::default(),
            moved: AtomicU64::new(0),
            expected: AtomicU64::new(0),
            pool: Arc::default(),
            folders: None,
            checks: Arc::default(),
            call: Arc::default(),
            reads: Arc::default(),
        }
    }

    /// Returns a session with the same threads, memory and limits, but its own cancel token, notes
    /// and progress. A program that runs several tasks creates one such session per task.
    #[must_use]
    pub fn with_own_progress(&self) -> Self {
        Self {
            limits: self.limits.clone(),
            rate: self.rate,
            remote: self.remote.clone(),
            links: self.links.clone(),
            pool: self.pool.clone(),
            ..Self::new(self.threads, self.memory)
        }
    }

    /// Marks the session as part of a run with many jobs, so that only the first job lists an
    /// output folder.
    #[must_use]
    pub fn of_many_jobs(self) -> Self {
        Self { folders: Some(Arc::default()), ..self }
    }

    /// Returns the names that output folders contained when the run's first job listed them, if
    /// this session belongs to a run.
    #[must_use]
    pub fn folders(&self) -> Option<&FolderNames> {
        self.folders.as_deref()
    }

    /// Returns a child session that is canceled together with this one.
    #[must_use]
    pub fn child(&self, threads: usize, memory: u64, rate: Option<u64>) -> Self {
        let pool = if threads == self.threads { self.pool.clone() } else { Arc::default() };
        let (limits, cancelled) = (within(self.limits.clone(), memory), self.cancelled.clone());
        let (folders, checks, call) = (self.folders.clone(), self.checks.clone(), self.call.clone());
        let (reads, remote, links) = (self.reads.clone(), self.remote.clone(), self.links.clone());
        Self {
            limits,
            rate,
            remote,
            links,
            cancelled,
            pool,
            folders,
            checks,
            call,
            reads,
            ..Self::new(threads, memory)
        }
    }

    /// Returns a child session that is canceled together with this session and has `1 / of` of this
    /// session's memory.
    #[must_use]
    pub fn share(&self, of: u64) -> Self {
        let memory = self.memory / of.max(1);
        Self {
            limits: within(self.limits.clone(), memory),
            remote: self.remote.clone(),
            links: self.links.clone(),
            cancelled: self.cancelled.clone(),
            pool: self.pool.clone(),
            checks: self.checks.clone(),
            call: self.call.clone(),
            reads: self.reads.clone(),
            ..Self::new(self.threads, memory)
        }
    }

    /// Runs `work` so that all parallel code in it uses this session's threads instead of the
    /// process's global threads.
    pub fn install<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.pool.get(self.threads)?.install(work)
    }

    /// Returns the flag that cancels the session when it is set, for example in a signal handler.
    #[must_use]
    pub fn cancel_flag(&self) -> Arc<AtomicBool> {
        self.cancelled.clone()
    }

    /// Returns the number of bytes that one thread may use for gathers in addition to its window.
    #[must_use]
    pub fn gather_bytes(&self) -> usize {
        let share = self.memory / (4 * self.threads as u64);
        size(share).clamp(256 << 10, 8 << 20)
    }

    /// Returns the maximum size of a slab in bytes. In addition to the slab, a thread keeps one
    /// tile in its stored form and one in its cast form.
    #[must_use]
    pub fn slab_bytes(&self) -> usize {
        self.gather_bytes() / 2
    }

    /// Returns the maximum number of bytes of decoded or gathered tensors to keep in memory. ferry
    /// writes the remaining bytes to a temporary file.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.memory / 4
    }

    /// Returns the session's notes for the user, and clears them.
    pub fn take_notes(&self) -> Vec<String> {
        let notes = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        let of_remote = self.remote.as_ref().map(|remote| remote.take_notes());
        notes.into_iter().chain(of_remote.unwrap_or_default()).collect()
    }

    #[must_use]
    pub fn noted(&self) -> usize {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Discards the notes and the progress of a failed attempt before the next attempt. `noted` is
    /// the number of notes at the start of the attempt. If there is a rate limit, the bytes that
    /// the attempt copied remain counted.
    pub fn start_over(&self, noted: usize) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).truncate(noted);
        if self.rate.is_none() {
            self.moved.store(0, Ordering::Relaxed);
        }
        self.reads.done.store(0, Ordering::Relaxed);
        self.reads.expected.store(0, Ordering::Relaxed);
    }

    /// Adds to the number of bytes that will be copied.
    pub fn expect(&self, bytes: u64) {
        self.expected.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes copied so far, and the total for all conversions that have started.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        (self.moved.load(Ordering::Relaxed), self.expected.load(Ordering::Relaxed))
    }

    /// Adds to the number of bytes that will be checked, by hashing or by comparison.
    pub fn will_check(&self, bytes: u64) {
        self.checks.expected.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn checked(&self, bytes: u64) {
        self.checks.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes checked so far, and the total bytes of all checks that have started.
    #[must_use]
    pub fn checks(&self) -> (u64, u64) {
        (self.checks.done.load(Ordering::Relaxed), self.checks.expected.load(Ordering::Relaxed))
    }

    /// Adds to the number of file bytes that will be read as rows.
    pub fn will_read(&self, bytes: u64) {
        self.reads.expected.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts file bytes whose rows have been read.
    pub fn has_read(&self, bytes: u64) {
        self.reads.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes read as rows so far, and the total bytes of all files whose reading has
    /// started. Parts of a split that no step needs count as read when the rest of the split has
    /// been read.
    #[must_use]
    pub fn reads(&self) -> (u64, u64) {
        (self.reads.done.load(Ordering::Relaxed), self.reads.expected.load(Ordering::Relaxed))
    }

    /// Sets the progress of the plugin call that most recently reported its progress.
    pub(crate) fn progress_of_call(&self, done: u64, total: u64) {
        self.call.done.store(done, Ordering::Relaxed);
        self.call.expected.store(total, Ordering::Relaxed);
    }

    /// Returns the progress of the latest long plugin call that reports progress (an index, or a
    /// scan for a schema): bytes processed and total bytes. Returns `(0, 0)` before the first such
    /// call.
    #[must_use]
    pub fn call(&self) -> (u64, u64) {
        (self.call.done.load(Ordering::Relaxed), self.call.expected.load(Ordering::Relaxed))
    }

    /// Cancels all work in this session. Canceled work ends with an error and leaves no partial
    /// output.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Counts copied bytes, and waits if the copy exceeds the rate limit.
    pub fn count(&self, bytes: u64) {
        let moved = self.moved.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(rate) = self.rate {
            let due = Duration::try_from_secs_f64(moved as f64 / rate as f64).unwrap_or_default();
            std::thread::sleep(due.saturating_sub(self.started.elapsed()));
        }
    }
}

/// Returns the limits with the memory limit lowered to at most `memory`.
fn within(mut limits: Limits, memory: u64) -> Limits {
    limits.memory_bytes = limits.memory_bytes.min(memory);
    limits
}

impl Default for Session {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::new(threads, 256 << 20)
    }
}

impl Context for Session {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn log(&self, level: Level, message: &str) {
        let message = match level {
            Level::Detail => return,
            Level::Note => message.to_owned(),
            Level::Warning => format!("warning: {message}"),
            Level::Error => format!("error: {message}"),
        };
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        // The notes are limited in number, so that a plugin cannot fill the memory or the terminal.
        // Duplicate notes are omitted, because an input may be probed several times.
        if notes.len() < 1000 && !notes.contains(&message) {
            notes.push(message);
        }
    }
}
