//! A process pool is the threads of a session, started when they are first needed, and again in a process that was
//! forked: threads do not go along into it, and whoever waits for the parent's there waits for ever.

use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_sdk::{Error, Result};

/// The threads of one process.
#[derive(Debug, Default)]
pub(super) struct ProcessPool(Mutex<Option<OfProcess>>);

#[derive(Debug, Clone)]
struct OfProcess {
    process: u32,
    threads: Result<Arc<ThreadPool>, String>,
}

impl ProcessPool {
    /// The threads of this process: `threads` of them, if they have to be started.
    pub(super) fn get(&self, threads: usize) -> Result<Arc<ThreadPool>> {
        let process = std::process::id();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.as_ref().is_none_or(|known| known.process != process) {
            let started = ThreadPoolBuilder::new().num_threads(threads).build();
            let threads = started.map(Arc::new).map_err(|error| error.to_string());
            // The parent's pool would wake threads that are not here.
            std::mem::forget(known.replace(OfProcess { process, threads }));
        }
        let threads = known.as_ref().map(|known| known.threads.clone());
        match threads {
            Some(Ok(pool)) => Ok(pool),
            Some(Err(error)) => Err(Error::io(format!("cannot start threads: {error}"))),
            None => Err(Error::io("cannot start threads")),
        }
    }
}
