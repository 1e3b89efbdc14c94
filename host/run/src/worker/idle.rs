//! Keeps worker processes after a pool has ended, so that the next piece of a plan does not start
//! new processes.

use super::process::{WorkerCommand, WorkerProcess};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use tensorferry_sdk::{Error, Result};

/// The idle processes, and a thread that starts new processes. A process ends when the thread that
/// started it ends. The threads of a pool end when the pool ends, so processes that the pool's
/// threads start cannot be reused.
pub(crate) struct IdleWorkers {
    idle: Mutex<Vec<WorkerProcess>>,
    starts: Sender<Sender<Result<WorkerProcess>>>,
}

impl IdleWorkers {
    pub(crate) fn new(command: &WorkerCommand) -> Self {
        let (starts, asked) = channel::<Sender<Result<WorkerProcess>>>();
        let command = command.clone();
        // The thread ends when the last sender is dropped.
        std::thread::spawn(move || {
            for reply in asked {
                let _ = reply.send(WorkerProcess::start(&command));
            }
        });
        Self { idle: Mutex::default(), starts }
    }

    /// Returns an idle process, or starts one.
    pub(crate) fn take(&self) -> Result<WorkerProcess> {
        if let Some(waiting) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(waiting);
        }
        let (reply, started) = channel();
        let gone = || Error::io("the thread that starts processes has ended");
        self.starts.send(reply).map_err(|_| gone())?;
        started.recv().map_err(|_| gone())?
    }

    /// Keeps a process for later jobs.
    pub(crate) fn give_back(&self, process: WorkerProcess) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(process);
    }
}
