//! Processes that wait for jobs between one pool and the next, so that a plan's pieces do not start as many each.

use super::process::{WorkerCommand, WorkerProcess};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use tensorferry_sdk::{Error, Result};

/// Those that have nothing to do, and a thread that starts others: the system ends a process with the thread that has started it, and
/// a pool's threads do not live as long.
pub(crate) struct IdleWorkers {
    idle: Mutex<Vec<WorkerProcess>>,
    starts: Sender<Sender<Result<WorkerProcess>>>,
}

impl IdleWorkers {
    pub(crate) fn new(command: &WorkerCommand) -> Self {
        let (starts, asked) = channel::<Sender<Result<WorkerProcess>>>();
        let command = command.clone();
        // It ends with the last one who may ask.
        std::thread::spawn(move || {
            for reply in asked {
                let _ = reply.send(WorkerProcess::start(&command));
            }
        });
        Self { idle: Mutex::default(), starts }
    }

    /// One that waits, or a new one.
    pub(crate) fn take(&self) -> Result<WorkerProcess> {
        if let Some(waiting) = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(waiting);
        }
        let (reply, started) = channel();
        let gone = || Error::io("the thread that starts processes has ended");
        self.starts.send(reply).map_err(|_| gone())?;
        started.recv().map_err(|_| gone())?
    }

    /// Has one wait.
    pub(crate) fn give_back(&self, process: WorkerProcess) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(process);
    }
}
