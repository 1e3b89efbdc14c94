//! Record jobs: indexing, inspecting and converting a TFRecord file of Examples, compared with
//! `tf.data`, `parse_example` and pyarrow.

use crate::table::print;
use crate::turns::{Folder, Job};
use std::fs::File;
use std::path::Path;
use tensorferry_tests::measure::Clock;
use tensorferry_tests::{Ferry, python};

/// A folder with a file of Examples that TensorFlow wrote. Each Example is about a kilobyte.
pub(crate) struct Records {
    folder: Folder,
    mebibytes: u64,
    ferry: Ferry,
}

const LARGE: &str = "large.tfrecord";
const SMALL: &str = "small.tfrecord";

/// A task for `ferry`, with an equivalent in Python.
#[derive(Debug, Clone, Copy)]
enum Task {
    Index,
    Inspect,
    Convert,
}

impl Task {
    const ALL: [Self; 3] = [Self::Index, Self::Inspect, Self::Convert];

    fn word(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Inspect => "inspect",
            Self::Convert => "convert to Parquet",
        }
    }

    fn output(self) -> Option<&'static str> {
        match self {
            Self::Index => Some("out.idx"),
            Self::Inspect => None,
            Self::Convert => Some("out.parquet"),
        }
    }

    fn outputs(self) -> Vec<String> {
        self.output().into_iter().map(str::to_owned).collect()
    }
}

impl Records {
    pub(crate) fn new(folder: &Path, mebibytes: u64) -> Self {
        let records = Self { folder: Folder::new(folder), mebibytes, ferry: Ferry::new() };
        let [small, large] = [SMALL, LARGE].map(|name| records.folder.path(name));
        let quarter = (mebibytes / 4).to_string();
        let _ = python::script("bench_records.py", ["make".as_ref(), small.as_os_str(), quarter.as_ref()]);
        // The concatenation of TFRecord files is a valid TFRecord file.
        let mut large = File::create(large).unwrap();
        for _ in 0..4 {
            std::io::copy(&mut File::open(&small).unwrap(), &mut large).unwrap();
        }
        records
    }

    fn ferry(&self, task: Task, input: &str, options: &[&str]) -> Job {
        let word = match task {
            Task::Index => "index",
            Task::Inspect => "inspect",
            Task::Convert => "convert",
        };
        let mut command = self.ferry.command([word, "--json"]);
        command.arg(self.folder.path(input));
        command.args(task.output().map(|name| self.folder.path(name))).args(options);
        let name = format!("ferry {}", task.word());
        Job { name, command, outputs: task.outputs(), clock: Clock::Process }
    }

    fn python(&self, task: Task) -> Job {
        let (name, word) = match task {
            Task::Index => ("tf.data: TFRecordDataset, batch, count", "count"),
            Task::Inspect => ("tf.data: TFRecordDataset, batch, parse_example", "parse"),
            Task::Convert => ("parse_example + pyarrow.parquet.ParquetWriter", "parquet"),
        };
        let mut arguments = vec![word.into(), self.folder.path(LARGE).into_os_string()];
        if let Task::Convert = task {
            arguments.extend(task.output().map(|name| self.folder.path(name).into_os_string()));
        }
        let command = python::command("bench_records.py", arguments);
        Job { name: name.to_owned(), command, outputs: task.outputs(), clock: Clock::Printed }
    }

    /// Measures each task compared with Python scripts.
    pub(crate) fn beside_python(&self, rounds: usize) {
        let jobs = Task::ALL.into_iter().flat_map(|task| [self.python(task), self.ferry(task, LARGE, &[])]);
        let rows = self.folder.in_turns(rounds, jobs.collect());
        let title = format!("memory: records, {} MiB of Examples of 1 KiB, {rounds} rounds", self.mebibytes);
        print(&title, &rows, |index| Some(index & !1));
    }

    /// Measures peak memory at a quarter of the size and at the whole size, with a small and a
    /// large `--memory`.
    pub(crate) fn peak_memory(&self) {
        let mut jobs = Vec::new();
        for task in Task::ALL {
            for memory in ["64MiB", "256MiB"] {
                for (input, mebibytes) in [(SMALL, self.mebibytes / 4), (LARGE, self.mebibytes)] {
                    let mut job = self.ferry(task, input, &["--memory", memory]);
                    job.name = format!("{mebibytes} MiB, {} --memory {memory}", task.word());
                    jobs.push(job);
                }
            }
        }
        print("memory: records, peak memory", &self.folder.in_turns(3, jobs), |_| None);
    }
}
