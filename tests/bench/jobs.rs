//! The jobs: what is converted, beside what, in which order.

use crate::measure::measure;
use crate::table::{Row, print};
use std::path::{Path, PathBuf};
use std::process::Command;
use tensorferry_tests::model::Model;
use tensorferry_tests::{Ferry, python};

const TENSORS: u64 = 300;

/// A folder with a model in both formats.
pub(crate) struct Bench {
    name: &'static str,
    folder: PathBuf,
    bytes: u64,
    ferry: Ferry,
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Bench {
    pub(crate) fn new(name: &'static str, folder: &Path, bytes: u64) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let bench = Self { name, folder: folder.to_owned(), bytes, ferry: Ferry::new() };
        bench.make("model", &Model::of_size(bytes, TENSORS, 1));
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A model as `NAME.safetensors`, and as `NAME.pt`.
    fn make(&self, name: &str, model: &Model) {
        let safetensors = self.path(&format!("{name}.safetensors"));
        model.write(&safetensors).unwrap();
        let _ = self.ferry.convert(&safetensors, &self.path(&format!("{name}.pt")), &["--force", "--quiet"]);
    }

    fn convert(&self, input: &str, output: &str, options: &[&str]) -> Command {
        let mut command = self.ferry.command(["convert", "--quiet"]);
        command.arg(self.path(input)).arg(self.path(output)).args(options);
        command
    }

    fn cp(&self, input: &str, output: &str, sync: bool) -> Command {
        if sync {
            let mut command = Command::new("sh");
            command.args(["-c", "cp \"$1\" \"$2\" && sync \"$2\"", "sh"]);
            command.arg(self.path(input)).arg(self.path(output));
            return command;
        }
        let mut command = Command::new("cp");
        // As read and write: a reflink would copy nothing.
        command.arg("--reflink=never").arg(self.path(input)).arg(self.path(output));
        command
    }

    /// Runs the jobs in turns, each into a name that is free and on a disk that is idle.
    fn in_turns(&self, rounds: usize, jobs: Vec<(String, Command, String)>) -> Vec<Row> {
        let mut rows: Vec<Row> =
            jobs.iter().map(|(name, ..)| Row { name: name.clone(), runs: Vec::new() }).collect();
        let mut jobs = jobs;
        for round in 0..=rounds {
            for (row, (_, command, output)) in rows.iter_mut().zip(&mut jobs) {
                let _ = std::fs::remove_file(self.path(output));
                let _ = Command::new("sync").arg("--file-system").arg(&self.folder).status();
                let run = measure(command);
                // The first round warms the cache.
                if round > 0 {
                    row.runs.push(run);
                }
            }
        }
        rows
    }

    /// The three conversions, each beside a copy of its input.
    pub(crate) fn beside_cp(&self, rounds: usize, options: &[&str]) {
        let sync = options.contains(&"--sync");
        let with_sync = if sync { " + sync" } else { "" };
        let mut jobs = Vec::new();
        for (from, to) in [("pt", "safetensors"), ("safetensors", "pt"), ("safetensors", "safetensors")] {
            let (input, output) = (format!("model.{from}"), format!("out.{to}"));
            jobs.push((format!("cp {input}{with_sync}"), self.cp(&input, "copy", sync), "copy".to_owned()));
            let name = format!("ferry {from} -> {to}{}", if sync { " --sync" } else { "" });
            jobs.push((name, self.convert(&input, &output, options), output));
        }
        let rows = self.in_turns(rounds, jobs);
        let title = format!(
            "{}: {} MiB in {TENSORS} tensors, {rounds} rounds{with_sync}",
            self.name,
            self.bytes >> 20
        );
        print(&title, &rows, |index| Some(index & !1));
        for name in ["copy", "out.pt", "out.safetensors"] {
            let _ = std::fs::remove_file(self.path(name));
        }
    }

    /// torch -> safetensors with both libraries in Python.
    pub(crate) fn beside_python(&self) {
        let python = python::command("convert.py", [self.path("model.pt"), self.path("out.safetensors")]);
        let jobs = vec![
            ("torch.load(mmap=True) + save_file".to_owned(), python, "out.safetensors".to_owned()),
            (
                "ferry pt -> safetensors".to_owned(),
                self.convert("model.pt", "out.safetensors", &[]),
                "out.safetensors".to_owned(),
            ),
        ];
        print(&format!("{}: beside Python", self.name), &self.in_turns(3, jobs), |_| Some(0));
        let _ = std::fs::remove_file(self.path("out.safetensors"));
    }

    /// A model of 1 MiB with everything that a start costs, and a catalog of 100,000 tensors.
    pub(crate) fn small_and_many(&self) {
        self.make("small", &Model::of_size(1 << 20, 30, 2));
        self.make("many", &Model::of_scalars(100_000, 3));
        let inspect = |input: &str| {
            let mut command = self.ferry.command(["inspect", "--json"]);
            command.arg(self.path(input));
            command
        };
        let jobs = vec![
            (
                "1 MiB, pt -> safetensors".to_owned(),
                self.convert("small.pt", "out.safetensors", &[]),
                "out.safetensors".to_owned(),
            ),
            (
                "1 MiB, safetensors -> pt".to_owned(),
                self.convert("small.safetensors", "out.pt", &[]),
                "out.pt".to_owned(),
            ),
            (
                "inspect 100,000 tensors, safetensors".to_owned(),
                inspect("many.safetensors"),
                "none".to_owned(),
            ),
            ("inspect 100,000 tensors, pt".to_owned(), inspect("many.pt"), "none".to_owned()),
        ];
        print(&format!("{}: small and many", self.name), &self.in_turns(15, jobs), |_| None);
    }

    /// Peak memory at once and at four times the size.
    pub(crate) fn peak_memory(&self) {
        let large = self.bytes * 4;
        self.make("large", &Model::of_size(large, TENSORS, 4));
        let mut jobs = Vec::new();
        for (name, bytes) in [("model", self.bytes), ("large", large)] {
            for (from, to) in [("pt", "safetensors"), ("safetensors", "pt"), ("safetensors", "safetensors")] {
                let output = format!("out.{to}");
                let command = self.convert(&format!("{name}.{from}"), &output, &[]);
                jobs.push((format!("{} MiB, {from} -> {to}", bytes >> 20), command, output));
            }
        }
        print(&format!("{}: peak memory", self.name), &self.in_turns(1, jobs), |_| None);
    }
}
