//! The jobs: what is converted, beside what, in which order.

use crate::measure::measure;
use crate::table::{Row, print};
use std::path::{Path, PathBuf};
use std::process::Command;
use tensorferry_tests::model::Model;
use tensorferry_tests::{Ferry, python};

const TENSORS: u64 = 300;

/// A format of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Torch,
    Safetensors,
    Bundle,
}

/// What is converted into what.
const CONVERSIONS: [(Kind, Kind); 5] = [
    (Kind::Torch, Kind::Safetensors),
    (Kind::Safetensors, Kind::Torch),
    (Kind::Safetensors, Kind::Safetensors),
    (Kind::Bundle, Kind::Safetensors),
    (Kind::Safetensors, Kind::Bundle),
];

impl Kind {
    /// The format's id.
    fn id(self) -> &'static str {
        match self {
            Self::Torch => "torch",
            Self::Safetensors => "safetensors",
            Self::Bundle => "tf-bundle",
        }
    }

    /// What it is called in the tables.
    fn word(self) -> &'static str {
        match self {
            Self::Torch => "pt",
            Self::Safetensors => "safetensors",
            Self::Bundle => "bundle",
        }
    }

    /// A model's files, first the one with the tensors.
    fn files(self, model: &str) -> Vec<String> {
        match self {
            Self::Torch => vec![format!("{model}.pt")],
            Self::Safetensors => vec![format!("{model}.safetensors")],
            Self::Bundle => vec![format!("{model}.data-00000-of-00001"), format!("{model}.index")],
        }
    }

    /// What a command names: the file, or what a bundle's files start with.
    fn name(self, model: &str) -> String {
        match self {
            Self::Torch | Self::Safetensors => self.files(model).swap_remove(0),
            Self::Bundle => model.to_owned(),
        }
    }
}

/// A command that is measured.
struct Job {
    name: String,
    command: Command,
    /// The files that it makes, to be removed.
    outputs: Vec<String>,
}

/// A folder with a model in every format.
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

    /// A model in every format, under the format's names.
    fn make(&self, name: &str, model: &Model) {
        let safetensors = self.path(&Kind::Safetensors.name(name));
        model.write(&safetensors).unwrap();
        for kind in [Kind::Torch, Kind::Bundle] {
            let options = ["--force", "--quiet", "--to", kind.id()];
            let _ = self.ferry.convert(&safetensors, &self.path(&kind.name(name)), &options);
        }
    }

    fn convert(&self, name: String, model: &str, from: Kind, to: Kind, options: &[&str]) -> Job {
        let mut command = self.ferry.command(["convert", "--quiet", "--from", from.id(), "--to", to.id()]);
        command.arg(self.path(&from.name(model))).arg(self.path(&to.name("out"))).args(options);
        Job { name, command, outputs: to.files("out") }
    }

    fn cp(&self, input: &str, sync: bool) -> Job {
        let mut command = Command::new(if sync { "sh" } else { "cp" });
        let args = if sync {
            &["-c", "cp \"$1\" \"$2\" && sync \"$2\"", "sh"][..]
        } else {
            // As read and write: a reflink would copy nothing.
            &["--reflink=never"]
        };
        command.args(args).arg(self.path(input)).arg(self.path("copy"));
        let name = format!("cp {input}{}", if sync { " + sync" } else { "" });
        Job { name, command, outputs: vec!["copy".to_owned()] }
    }

    /// Runs the jobs in turns, each into a name that is free and on a disk that is idle.
    fn in_turns(&self, rounds: usize, mut jobs: Vec<Job>) -> Vec<Row> {
        let mut rows: Vec<Row> =
            jobs.iter().map(|job| Row { name: job.name.clone(), runs: Vec::new() }).collect();
        for round in 0..=rounds {
            for (row, job) in rows.iter_mut().zip(&mut jobs) {
                self.remove(&job.outputs);
                let _ = Command::new("sync").arg("--file-system").arg(&self.folder).status();
                let run = measure(&mut job.command);
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

    fn remove(&self, outputs: &[String]) {
        for output in outputs {
            let _ = std::fs::remove_file(self.path(output));
        }
    }

    /// The conversions, each beside a copy of its input.
    pub(crate) fn beside_cp(&self, rounds: usize, options: &[&str]) {
        let sync = options.contains(&"--sync");
        let mut jobs = Vec::new();
        for (from, to) in CONVERSIONS {
            jobs.push(self.cp(&from.files("model")[0], sync));
            let name = format!("ferry {} -> {}{}", from.word(), to.word(), if sync { " --sync" } else { "" });
            jobs.push(self.convert(name, "model", from, to, options));
        }
        let rows = self.in_turns(rounds, jobs);
        let with_sync = if sync { " + sync" } else { "" };
        let mebibytes = self.bytes >> 20;
        let title =
            format!("{}: {mebibytes} MiB in {TENSORS} tensors, {rounds} rounds{with_sync}", self.name);
        print(&title, &rows, |index| Some(index & !1));
    }

    /// The same conversions as a script does them, with the frameworks and the safetensors library.
    pub(crate) fn beside_python(&self) {
        let scripts = [
            ("torch.load(mmap=True) + save_file", "convert.py", Kind::Torch, Kind::Safetensors),
            ("tf.train.load_checkpoint + save_file", "tf_convert.py", Kind::Bundle, Kind::Safetensors),
            ("safe_open + tf.train.Checkpoint.write", "tf_convert.py", Kind::Safetensors, Kind::Bundle),
        ];
        let mut jobs = Vec::new();
        for (name, script, from, to) in scripts {
            let ferry = format!("ferry {} -> {}", from.word(), to.word());
            let ferry = self.convert(ferry, "model", from, to, &[]);
            let paths = [self.path(&from.name("model")), self.path(&to.name("out"))];
            let command = python::command(script, paths);
            jobs.push(Job { name: name.to_owned(), command, outputs: ferry.outputs.clone() });
            jobs.push(ferry);
        }
        let title = format!("{}: beside Python", self.name);
        print(&title, &self.in_turns(3, jobs), |index| Some(index & !1));
    }

    /// A model of 1 MiB with everything that a start costs, and a catalog of 100,000 tensors.
    pub(crate) fn small_and_many(&self) {
        self.make("small", &Model::of_size(1 << 20, 30, 2));
        self.make("many", &Model::of_scalars(100_000, 3));
        let mut jobs = Vec::new();
        for (from, to) in CONVERSIONS {
            let name = format!("1 MiB, {} -> {}", from.word(), to.word());
            jobs.push(self.convert(name, "small", from, to, &[]));
        }
        for kind in [Kind::Safetensors, Kind::Torch, Kind::Bundle] {
            let mut command = self.ferry.command(["inspect", "--json", "--from", kind.id()]);
            command.arg(self.path(&kind.name("many")));
            let name = format!("inspect 100,000 tensors, {}", kind.word());
            jobs.push(Job { name, command, outputs: Vec::new() });
        }
        print(&format!("{}: small and many", self.name), &self.in_turns(15, jobs), |_| None);
    }

    /// Peak memory at once and at four times the size.
    pub(crate) fn peak_memory(&self) {
        let large = self.bytes * 4;
        self.make("large", &Model::of_size(large, TENSORS, 4));
        let mut jobs = Vec::new();
        for (model, bytes) in [("model", self.bytes), ("large", large)] {
            for (from, to) in CONVERSIONS {
                let name = format!("{} MiB, {} -> {}", bytes >> 20, from.word(), to.word());
                jobs.push(self.convert(name, model, from, to, &[]));
            }
        }
        print(&format!("{}: peak memory", self.name), &self.in_turns(1, jobs), |_| None);
    }
}
