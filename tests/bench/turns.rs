//! Turns: the jobs of a table run one after the other, round by round, so that what disturbs the machine
//! disturbs them alike.

use crate::table::Row;
use std::path::{Path, PathBuf};
use std::process::Command;
use tensorferry_tests::measure::{Clock, measure};

/// A command that is measured.
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) command: Command,
    /// The files and folders that it makes, to be removed.
    pub(crate) outputs: Vec<String>,
    pub(crate) clock: Clock,
}

/// A folder that goes with everything in it.
pub(crate) struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    pub(crate) fn new(path: &Path) -> Self {
        std::fs::create_dir_all(path).unwrap();
        Self(path.to_owned())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs the jobs in turns, each into a name that is free and on a disk that is idle.
    pub(crate) fn in_turns(&self, rounds: usize, mut jobs: Vec<Job>) -> Vec<Row> {
        let mut rows: Vec<Row> =
            jobs.iter().map(|job| Row { name: job.name.clone(), runs: Vec::new() }).collect();
        for round in 0..=rounds {
            for (row, job) in rows.iter_mut().zip(&mut jobs) {
                self.remove(&job.outputs);
                let _ = Command::new("sync").arg("--file-system").arg(&self.0).status();
                let run = measure(&mut job.command, job.clock);
                // At once: the largest outputs of all jobs together are more than some disks have.
                self.remove(&job.outputs);
                // The first round warms the cache.
                if round > 0 {
                    row.runs.push(run);
                }
            }
        }
        rows
    }

    pub(crate) fn remove(&self, outputs: &[String]) {
        for output in outputs {
            let path = self.path(output);
            let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
        }
    }
}
