//! A session is what conversions may use and must obey: threads, memory, limits, a cancel token, and a
//! place for notes and progress.

use crate::context::folder_names::FolderNames;
use crate::context::process_pool::ProcessPool;
use crate::context::remote::Remote;
use crate::context::windows::size;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tensorferry_sdk::{Context, Level, Limits, Result};

/// The resources and limits of one or several conversions.
#[derive(Debug)]
pub struct Session {
    /// What bounds hostile input.
    pub limits: Limits,
    /// Threads that copy.
    pub threads: usize,
    /// Bytes of buffers, all threads together.
    pub memory: u64,
    /// Bytes a second, at most.
    pub rate: Option<u64>,
    /// What opens inputs that are URLs; none, where all inputs are paths.
    pub remote: Option<Arc<dyn Remote>>,
    /// Which links of an input's folder are followed.
    pub links: LinkRules,
    started: Instant,
    cancelled: Arc<AtomicBool>,
    notes: Mutex<Vec<String>>,
    /// Bytes that have been copied, for the progress bar.
    pub moved: AtomicU64,
    /// Bytes that will have been copied when all that was begun is done.
    expected: AtomicU64,
    /// Started when they are first needed; shared with sessions that have as many.
    pool: Arc<ProcessPool>,
    /// What the folders of outputs held, if the session is one of many jobs.
    folders: Option<Arc<FolderNames>>,
    /// Bytes that are read to be checked, and how many of them have been; shared with sessions that have a share.
    checks: Arc<Amount>,
    /// How far a plugin's long call is, of bytes that it reads; shared likewise.
    call: Arc<Amount>,
    /// Bytes of files that rows are read from, and how many of them have been; shared likewise.
    reads: Arc<Amount>,
}

/// What the user said of links.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkRules {
    /// `--follow-links`: weights and records may be elsewhere.
    pub follow: bool,
    /// The folder that an input was found below, which its links may lead into. The input itself was not named then.
    pub root: Option<PathBuf>,
}

/// How many bytes of how many.
#[derive(Debug, Default)]
struct Amount {
    expected: AtomicU64,
    done: AtomicU64,
}

impl Session {
    /// A session with `threads` threads and `memory` bytes of buffers.
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

    /// A session with the same threads, memory and limits, and a cancel token, notes and progress of its own: for
    /// one of several things that a program does with one registry.
    #[must_use]
    pub fn afresh(&self) -> Self {
        Self {
            limits: self.limits.clone(),
            rate: self.rate,
            remote: self.remote.clone(),
            links: self.links.clone(),
            pool: self.pool.clone(),
            ..Self::new(self.threads, self.memory)
        }
    }

    /// The same for the many jobs of one run: an output's folder is listed by the first of them alone.
    #[must_use]
    pub fn of_many_jobs(self) -> Self {
        Self { folders: Some(Arc::default()), ..self }
    }

    /// What the folders of outputs held when the run's first job looked, if this is a job of a run.
    #[must_use]
    pub fn folders(&self) -> Option<&FolderNames> {
        self.folders.as_deref()
    }

    /// A session of its own that is cancelled with this one.
    #[must_use]
    pub fn below(&self, threads: usize, memory: u64, rate: Option<u64>) -> Self {
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

    /// A session that is cancelled with this one, and has one of `of` equal shares of its memory.
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

    /// Does `work` on the threads of this session, whatever it does in parallel; a process's global threads
    /// are left alone.
    ///
    /// # Errors
    /// I/o, if the threads cannot be started; what `work` gives.
    pub fn install<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.pool.get(self.threads)?.install(work)
    }

    /// The flag that cancels the session once it is set, from a signal handler say.
    #[must_use]
    pub fn cancel_flag(&self) -> Arc<AtomicBool> {
        self.cancelled.clone()
    }

    /// Bytes that one thread may hold beside its window, for gathers.
    #[must_use]
    pub fn gather_bytes(&self) -> usize {
        let share = self.memory / (4 * self.threads as u64);
        size(share).clamp(256 << 10, 8 << 20)
    }

    /// Bytes of a slab: beside it lies a tile, as it is stored and as it is cast.
    #[must_use]
    pub fn slab_bytes(&self) -> usize {
        self.gather_bytes() / 2
    }

    /// Bytes of decoded or gathered tensors that are held in memory; more goes to a temporary file.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.memory / 4
    }

    /// What was noted, once.
    pub fn take_notes(&self) -> Vec<String> {
        let notes = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        let of_remote = self.remote.as_ref().map(|remote| remote.take_notes());
        notes.into_iter().chain(of_remote.unwrap_or_default()).collect()
    }

    /// How many notes there are.
    #[must_use]
    pub fn noted(&self) -> usize {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Forgets an attempt that is made again: its notes, which are those after the first `noted`, and what it
    /// has moved, unless that counts for how fast the whole may go.
    pub fn start_over(&self, noted: usize) {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).truncate(noted);
        if self.rate.is_none() {
            self.moved.store(0, Ordering::Relaxed);
        }
        self.reads.done.store(0, Ordering::Relaxed);
        self.reads.expected.store(0, Ordering::Relaxed);
    }

    /// Says that so many bytes more will be copied.
    pub fn expect(&self, bytes: u64) {
        self.expected.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How far the conversions of this session are: bytes that have been copied, and those that are to be
    /// copied in all, as far as conversions have begun.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        (self.moved.load(Ordering::Relaxed), self.expected.load(Ordering::Relaxed))
    }

    /// Says that so many bytes more will be read to be checked: hashed, or compared.
    pub fn will_check(&self, bytes: u64) {
        self.checks.expected.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that have been checked.
    pub fn checked(&self, bytes: u64) {
        self.checks.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How far checks are: bytes that have been hashed or compared, and those that are to be, as far as checks have
    /// begun.
    #[must_use]
    pub fn checks(&self) -> (u64, u64) {
        (self.checks.done.load(Ordering::Relaxed), self.checks.expected.load(Ordering::Relaxed))
    }

    /// Says that so many bytes more of files will be read as rows.
    pub fn will_read(&self, bytes: u64) {
        self.reads.expected.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes of files whose rows have been read.
    pub fn has_read(&self, bytes: u64) {
        self.reads.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How far reading of rows is: bytes of their files that have been gone through, and those of all, as far as it has
    /// begun. What no step needs counts as read when the rest of its split is.
    #[must_use]
    pub fn reads(&self) -> (u64, u64) {
        (self.reads.done.load(Ordering::Relaxed), self.reads.expected.load(Ordering::Relaxed))
    }

    /// Says how far the latest long call of a plugin is.
    pub(crate) fn progress_of_call(&self, done: u64, total: u64) {
        self.call.done.store(done, Ordering::Relaxed);
        self.call.expected.store(total, Ordering::Relaxed);
    }

    /// How far the latest long call of a plugin is that said so, an index or a scan for a schema: bytes that it has
    /// gone through, and all; 0 of 0, before there was one.
    #[must_use]
    pub fn call(&self) -> (u64, u64) {
        (self.call.done.load(Ordering::Relaxed), self.call.expected.load(Ordering::Relaxed))
    }

    /// Cancels everything that is done in this session: it ends with an error, and leaves nothing half-written.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Counts copied bytes, and waits where they come faster than they may.
    pub fn count(&self, bytes: u64) {
        let moved = self.moved.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if let Some(rate) = self.rate {
            let due = Duration::try_from_secs_f64(moved as f64 / rate as f64).unwrap_or_default();
            std::thread::sleep(due.saturating_sub(self.started.elapsed()));
        }
    }
}

/// The limits of a session of so much memory.
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
        // A plugin cannot fill the memory, or the user's terminal, with notes; an input may be probed several times.
        if notes.len() < 1000 && !notes.contains(&message) {
            notes.push(message);
        }
    }
}
