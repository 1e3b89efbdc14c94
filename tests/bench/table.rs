//! A table of jobs that ran in alternation. Ratios compare the best runs.
//!
//! The best run counts instead of the mean, because other activity on the machine only makes a run
//! longer.

use std::time::Duration;
use tensorferry_tests::measure::Measurement;

/// The runs of a job.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) runs: Vec<Measurement>,
}

impl Row {
    pub(crate) fn best(&self) -> Duration {
        self.runs.iter().map(|run| run.wall).min().unwrap_or_default()
    }

    fn median(&self) -> Duration {
        let mut walls: Vec<_> = self.runs.iter().map(|run| run.wall).collect();
        walls.sort();
        walls[walls.len() / 2]
    }

    fn worst(&self) -> Duration {
        self.runs.iter().map(|run| run.wall).max().unwrap_or_default()
    }

    fn peak_mebibytes(&self) -> u64 {
        self.runs.iter().map(|run| run.peak_bytes).max().unwrap_or_default() >> 20
    }
}

/// Prints a table. `yardstick` returns the index of the row that a row is compared with, if there
/// is one. The ratio compares the best runs of these two rows. Prints nothing if there are no rows.
pub(crate) fn print(title: &str, rows: &[Row], yardstick: impl Fn(usize) -> Option<usize>) {
    if rows.is_empty() {
        return;
    }
    println!("### {title}\n");
    println!("| | best, ms | ratio | median, ms | worst, ms | peak memory, MiB |");
    println!("|---|---:|---:|---:|---:|---:|");
    for (index, row) in rows.iter().enumerate() {
        let of = |other: usize| row.best().as_secs_f64() / rows[other].best().as_secs_f64();
        let ratio = yardstick(index).map(|other| format!("{:.2}", of(other))).unwrap_or_default();
        println!(
            "| {} | {:.1} | {ratio} | {:.1} | {:.1} | {} |",
            row.name,
            row.best().as_secs_f64() * 1e3,
            row.median().as_secs_f64() * 1e3,
            row.worst().as_secs_f64() * 1e3,
            row.peak_mebibytes(),
        );
    }
    println!();
}
