//! The lock on a journal. A run holds the lock, and so does every process that the run starts,
//! because these processes inherit the open file.
//!
//! Once a run has acquired the lock, no process of an earlier run can commit.

use crate::platform::is_alive;
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::{Duration, Instant};
use tensorferry_publish::stage::lacks_locks;
use tensorferry_sdk::{Error, Result};

/// Maximum time that a run waits for the processes of a killed run to end. A slow disk may delay
/// these processes.
const PATIENCE: Duration = if cfg!(test) { Duration::from_millis(50) } else { Duration::from_secs(30) };
/// Maximum time that a run waits for another live run, which may be about to end.
const SHORT: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LockMode {
    Exclusive,
    Shared,
}

pub(super) fn take(file: File, path: &Path, mode: LockMode) -> Result<File> {
    let failed = |e: std::io::Error| Error::from(e).context("cannot lock the journal").file(shown(path));
    let start = Instant::now();
    let holder = holder(path);
    let patience = if holder.is_some() { SHORT } else { PATIENCE };
    loop {
        let locked = match mode {
            LockMode::Exclusive => file.try_lock(),
            LockMode::Shared => file.try_lock_shared(),
        };
        match locked {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if start.elapsed() < patience => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => return Err(taken(path, holder)),
            Err(TryLockError::Error(error)) if lacks_locks(&error) => {
                return Err(failed(error)
                    .context("the journal's file system does not support locks (flock)")
                    .hint("pass --journal with a path on a file system that does"));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
    }
    // The processes that run jobs inherit the open file, and therefore the lock.
    fcntl_setfd(&file, FdFlags::empty()).map_err(|e| failed(e.into()))?;
    Ok(file)
}

fn taken(path: &Path, holder: Option<u32>) -> Error {
    Error::transient(match holder {
        Some(process) => {
            format!("another run (process {process}) is using this journal")
        }
        None => "processes of an earlier run are still using this journal".to_owned(),
    })
    .file(shown(path))
    .hint("wait until that run ends, or stop it")
}

/// Returns the ID of the process that last used this journal, if that process is alive and is not
/// the current process.
fn holder(path: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().rev().find(|line| line.starts_with("{\"event\":\"begin\""))?;
    let record: serde_json::Value = serde_json::from_str(line).ok()?;
    let process = u32::try_from(record["process"].as_u64()?).ok()?;
    (is_alive(process) && process != std::process::id()).then_some(process)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
