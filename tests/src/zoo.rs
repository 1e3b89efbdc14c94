//! A zoo is a folder of models with a manifest that converts all of them to safetensors.

use crate::ferry::Outcome;
use crate::files::{STAGING, copy_below, files_below};
use crate::fixtures::{Case, cases};
use crate::model::Model;
use crate::{Ferry, args};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder with `in/`, `out/` and `zoo.toml`.
#[derive(Debug)]
pub struct Zoo {
    pub ferry: Ferry,
}

impl Default for Zoo {
    fn default() -> Self {
        Self::new()
    }
}

impl Zoo {
    /// Creates an empty zoo with a manifest that converts everything in `in/` and verifies the
    /// outputs.
    pub fn new() -> Self {
        let zoo = Self { ferry: Ferry::on_disk() };
        std::fs::create_dir(zoo.path("in")).unwrap();
        zoo.manifest(
            "[defaults]\nverify = true\nallow_empty = true\npart = \".\"\n\n\
             [[zoo]]\nroot = \"in\"\noutput = \"out/{parent}/{name}.safetensors\"\nto = \"safetensors\"\n",
        );
        zoo
    }

    pub fn home(&self) -> &Path {
        self.ferry.home()
    }

    /// Returns a path in the zoo's folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.ferry.at(name)
    }

    /// Replaces the manifest.
    pub fn manifest(&self, text: &str) {
        std::fs::write(self.path("zoo.toml"), text).unwrap();
    }

    /// Writes a file, and creates its parent folders.
    pub fn write(&self, name: &str, bytes: &[u8]) {
        self.ferry.write(name, bytes);
    }

    /// Adds a safetensors file of about `bytes` bytes to `in/`.
    pub fn add_model(&self, name: &str, bytes: u64, seed: u64) {
        let path = self.path("in").join(name);
        std::fs::create_dir_all(path.parent().expect("the path is in the zoo")).unwrap();
        Model::of_size(bytes, 12, seed).write(&path).unwrap();
    }

    /// Adds every fixture that must be read to `in/`, `rounds` times under different names. Returns
    /// the cases, each with the folder of its first copy.
    pub fn add_fixtures(&self, rounds: usize) -> Vec<(Case, PathBuf)> {
        let mut added = Vec::new();
        for section in ["safetensors", "torch", "tf", "deepspeed"] {
            for case in cases(section, "").into_iter().filter(|case| !case.is_error()) {
                for round in 0..rounds {
                    let to = self.path("in").join(section).join(format!("{}-{round}", case.name));
                    copy_below(&case.folder, &to);
                    std::fs::remove_file(to.join("expected.json")).unwrap();
                }
                let first = self.path("in").join(section).join(format!("{}-0", case.name));
                added.push((case, first));
            }
        }
        assert!(added.len() > 30, "only {} fixtures", added.len());
        added
    }

    /// Returns a command that runs `ferry run` on the zoo's manifest.
    #[must_use]
    pub fn command(&self, options: &[&str]) -> Command {
        let mut command = self.ferry.command(["run"]);
        command.arg(self.path("zoo.toml")).args(options);
        command
    }

    /// Runs the manifest until the run ends.
    #[must_use]
    pub fn run(&self, options: &[&str]) -> Outcome {
        crate::ferry::run(&mut self.command(options))
    }

    /// Starts the run, which the caller then disturbs.
    pub fn start(&self, options: &[&str]) -> Child {
        self.command(options).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Creates the plan `zoo.plan` with this many jobs per piece.
    pub fn plan(&self, piece_jobs: usize) -> Outcome {
        let [manifest, plan] = self.ferry.paths(["zoo.toml", "zoo.plan"]);
        self.ferry.run(args!["plan", manifest, plan, "--piece-jobs", piece_jobs.to_string(), "--json"])
    }

    /// Returns a command that runs `ferry run` or `ferry work` on the zoo's plan.
    #[must_use]
    pub fn on_plan(&self, command: &str, options: &[&str]) -> Command {
        let mut command = self.ferry.command([command]);
        command.arg(self.path("zoo.plan")).args(options);
        command
    }

    /// Waits until a fault of the kind `stop` has stopped a process or one of its children.
    pub fn wait_until_stopped(&self, process: u32) {
        let is_stopped = |process: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        };
        let start = Instant::now();
        while !is_stopped(&process) && !children(process).iter().any(is_stopped) {
            assert!(start.elapsed() < Duration::from_secs(60), "the process did not stop");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the `report.json` of the last run.
    pub fn report(&self) -> Value {
        let bytes = std::fs::read(self.path("zoo.report/report.json")).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    /// Removes the report. A run that has nothing to do keeps an existing report, and writes a
    /// missing one.
    pub fn forget_report(&self) {
        let _ = std::fs::remove_dir_all(self.path("zoo.report"));
    }

    /// Returns one of the totals of the last run.
    pub fn total(&self, name: &str) -> u64 {
        self.report()["totals"][name].as_u64().unwrap_or_else(|| panic!("no total {name}"))
    }

    /// Returns the failure of a job of the last run.
    pub fn failure(&self, name: &str) -> Value {
        let report = self.report();
        let job = report["jobs"].as_array().unwrap().iter().find(|job| job["name"] == name);
        job.unwrap_or_else(|| panic!("no job {name}"))["failure"].clone()
    }

    /// Returns the names of the jobs that ended in this state, sorted.
    pub fn jobs(&self, state: &str) -> Vec<String> {
        let report = self.report();
        let jobs = report["jobs"].as_array().unwrap().iter().filter(|job| job["state"] == state);
        let mut names: Vec<String> = jobs.map(|job| job["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    /// Returns every output file except stages and receipts, with facts that change when the file
    /// is written again.
    pub fn outputs(&self) -> Standing {
        let out = self.path("out");
        if !out.exists() {
            return BTreeMap::new();
        }
        let is_staged = |file: &PathBuf| file.iter().any(|part| part.to_string_lossy().starts_with(STAGING));
        let is_receipt = |file: &PathBuf| file.to_string_lossy().ends_with(".ferry.json");
        let files = files_below(&out).into_iter().filter(|file| !is_staged(file) && !is_receipt(file));
        // A file may disappear while a run is being killed.
        let facts = files.filter_map(|file| {
            let meta = std::fs::symlink_metadata(out.join(&file)).ok()?;
            Some((file, (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec())))
        });
        facts.collect()
    }

    /// Checks that all staging folders are gone.
    pub fn nothing_is_staged(&self) {
        let mut open = vec![self.home().to_owned()];
        while let Some(folder) = open.pop() {
            for name in crate::files::names_in(&folder) {
                assert!(!name.starts_with(STAGING), "left in {}", folder.display());
                if folder.join(&name).is_dir() {
                    open.push(folder.join(name));
                }
            }
        }
    }
}

/// The output files of a run, with facts that change when a file is written again.
pub type Standing = BTreeMap<PathBuf, (u64, u64, i64, i64)>;

/// Kills a process, which may have ended already.
pub fn kill(process: u32) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process id");
    let _ = kill_process(process, Signal::KILL);
}

/// Resumes a stopped process and its current and future children, and returns the output of the
/// process.
pub fn wake(mut stopped: Child) -> Output {
    while stopped.try_wait().unwrap().is_none() {
        for process in children(stopped.id()).into_iter().chain([stopped.id()]) {
            let process = i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process id");
            let _ = kill_process(process, Signal::CONT);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    stopped.wait_with_output().unwrap()
}

/// Returns the children of a process.
pub fn children(of: u32) -> Vec<u32> {
    let of = of.to_string();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The format is `PID (NAME) STATE PPID ...`, where the name may contain any characters.
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(&of)
    };
    processes.filter(is_child).collect()
}
