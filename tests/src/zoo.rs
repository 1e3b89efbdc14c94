//! A zoo is a folder of models with a manifest that converts them all to safetensors.

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

/// A place with `in/`, `out/` and `zoo.toml`.
#[derive(Debug)]
pub struct Zoo {
    /// The program.
    pub ferry: Ferry,
}

impl Default for Zoo {
    fn default() -> Self {
        Self::new()
    }
}

impl Zoo {
    /// An empty one, whose manifest converts what comes to lie in `in/`, with verification.
    pub fn new() -> Self {
        let zoo = Self { ferry: Ferry::on_disk() };
        std::fs::create_dir(zoo.path("in")).unwrap();
        zoo.manifest(
            "[defaults]\nverify = true\nallow_empty = true\npart = \".\"\n\n\
             [[zoo]]\nroot = \"in\"\noutput = \"out/{parent}/{name}.safetensors\"\nto = \"safetensors\"\n",
        );
        zoo
    }

    /// Its folder.
    pub fn home(&self) -> &Path {
        self.ferry.home()
    }

    /// A path in its folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.ferry.at(name)
    }

    /// Writes another manifest.
    pub fn manifest(&self, text: &str) {
        std::fs::write(self.path("zoo.toml"), text).unwrap();
    }

    /// Writes a file, and its folders.
    pub fn write(&self, name: &str, bytes: &[u8]) {
        self.ferry.write(name, bytes);
    }

    /// Puts a safetensors file of about `bytes` into `in/`.
    pub fn add_model(&self, name: &str, bytes: u64, seed: u64) {
        let path = self.path("in").join(name);
        std::fs::create_dir_all(path.parent().expect("it lies in the zoo")).unwrap();
        Model::of_size(bytes, 12, seed).write(&path).unwrap();
    }

    /// Puts every fixture that must be read into `in/`, `rounds` times under other names. Gives the cases,
    /// each with its first folder.
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

    /// `ferry run` on its manifest.
    #[must_use]
    pub fn command(&self, options: &[&str]) -> Command {
        let mut command = self.ferry.command(["run"]);
        command.arg(self.path("zoo.toml")).args(options);
        command
    }

    /// Runs it to its end.
    #[must_use]
    pub fn run(&self, options: &[&str]) -> Outcome {
        crate::ferry::run(&mut self.command(options))
    }

    /// Starts it, for the caller to disturb.
    pub fn start(&self, options: &[&str]) -> Child {
        self.command(options).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    /// Cuts its jobs into pieces of so many, as the plan `zoo.plan`.
    pub fn plan(&self, piece_jobs: usize) -> Outcome {
        let [manifest, plan] = self.ferry.paths(["zoo.toml", "zoo.plan"]);
        self.ferry.run(args!["plan", manifest, plan, "--piece-jobs", piece_jobs.to_string(), "--json"])
    }

    /// `ferry run` or `ferry work` on its plan.
    #[must_use]
    pub fn on_plan(&self, command: &str, options: &[&str]) -> Command {
        let mut command = self.ferry.command([command]);
        command.arg(self.path("zoo.plan")).args(options);
        command
    }

    /// Waits until a process, or one that it has started, is stopped by a fault of the kind `stop`.
    pub fn wait_until_stopped(&self, process: u32) {
        let is_stopped = |process: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        };
        let start = Instant::now();
        while !is_stopped(&process) && !children(process).iter().any(is_stopped) {
            assert!(start.elapsed() < Duration::from_secs(60), "it was never stopped");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The `report.json` of the last run.
    pub fn report(&self) -> Value {
        let bytes = std::fs::read(self.path("zoo.report/report.json")).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    /// Removes the report: a run that has nothing to do leaves the last one, and writes one where there is none.
    pub fn forget_report(&self) {
        let _ = std::fs::remove_dir_all(self.path("zoo.report"));
    }

    /// One of the totals of the last run.
    pub fn total(&self, name: &str) -> u64 {
        self.report()["totals"][name].as_u64().unwrap_or_else(|| panic!("no total {name}"))
    }

    /// The failure of a job of the last run.
    pub fn failure(&self, name: &str) -> Value {
        let report = self.report();
        let job = report["jobs"].as_array().unwrap().iter().find(|job| job["name"] == name);
        job.unwrap_or_else(|| panic!("no job {name}"))["failure"].clone()
    }

    /// The names of the jobs that ended so, sorted.
    pub fn jobs(&self, state: &str) -> Vec<String> {
        let report = self.report();
        let jobs = report["jobs"].as_array().unwrap().iter().filter(|job| job["state"] == state);
        let mut names: Vec<String> = jobs.map(|job| job["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    /// Every output file, stages and receipts left out, and what tells it from one that was written later.
    pub fn outputs(&self) -> Standing {
        let out = self.path("out");
        if !out.exists() {
            return BTreeMap::new();
        }
        let is_staged = |file: &PathBuf| file.iter().any(|part| part.to_string_lossy().starts_with(STAGING));
        let is_receipt = |file: &PathBuf| file.to_string_lossy().ends_with(".ferry.json");
        let files = files_below(&out).into_iter().filter(|file| !is_staged(file) && !is_receipt(file));
        // A file may go while a run is killed.
        let facts = files.filter_map(|file| {
            let meta = std::fs::symlink_metadata(out.join(&file)).ok()?;
            Some((file, (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec())))
        });
        facts.collect()
    }

    /// There is no staging folder.
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

/// The output files of a run, and what tells each from one that was written later.
pub type Standing = BTreeMap<PathBuf, (u64, u64, i64, i64)>;

/// Kills a process, which may have ended.
pub fn kill(process: u32) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process id");
    let _ = kill_process(process, Signal::KILL);
}

/// Wakes a process that is stopped, and those that it has started and will start; gives what it ends with.
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

/// The processes that a process has started.
pub fn children(of: u32) -> Vec<u32> {
    let of = of.to_string();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |process: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // `PID (NAME) STATE PPID ...`, and the name may hold anything.
        stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(1)) == Some(&of)
    };
    processes.filter(is_child).collect()
}
