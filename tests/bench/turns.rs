//! Runs every job of a table once per round, so that other activity on the machine affects all
//! jobs.

use crate::table::Row;
use std::path::{Path, PathBuf};
use std::process::Command;
use tensorferry_tests::measure::{Clock, measure};

/// A measured command.
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) command: Command,
    /// The output files and folders of the command, which are removed after each run.
    pub(crate) outputs: Vec<String>,
    pub(crate) clock: Clock,
}

/// A folder that is removed with its contents when this value is dropped.
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

    /// Runs the jobs in alternation. Each output is new, and the disk is synced before each run.
    pub(crate) fn in_turns(&self, rounds: usize, mut jobs: Vec<Job>) -> Vec<Row> {
        let mut rows: Vec<Row> =
            jobs.iter().map(|job| Row { name: job.name.clone(), runs: Vec::new() }).collect();
        for round in 0..=rounds {
            for (row, job) in rows.iter_mut().zip(&mut jobs) {
                self.remove(&job.outputs);
                let _ = Command::new("sync").arg("--file-system").arg(&self.0).status();
                let run = measure(&mut job.command, job.clock);
                // Outputs are removed immediately, because some disks have no space for the outputs
                // of all jobs together.
                self.remove(&job.outputs);
                // The first round is a warm-up.
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
