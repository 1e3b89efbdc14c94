//! Kills a commit at each of its stages, and the recovery at each of its stages, and checks the
//! result.
//!
//! Each run is a separate process: this test binary, with [`child`] as its only test.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::tests::{beside, fill, home, kind_of, nothing_spawns, spawning, tree, whole, write};
use super::*;
use crate::disk::Disk;
use crate::stage::Destination;
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use tempfile::TempDir;
use tensorferry_core::context::fault::STAGES;

const JOB: &str = "FERRY_TEST_JOB";
const HOME: &str = "FERRY_TEST_HOME";
const FAULT: &str = "FERRY_TEST_FAULT";

/// A commit and the output that it replaces.
#[derive(Debug, Clone, Copy)]
struct Job {
    name: &'static str,
    folder: bool,
    files: &'static [&'static str],
    /// The files of the older output that the commit replaces.
    old: &'static [&'static str],
    /// Whether the file system supports exchanges, links and no-replace renames.
    able: bool,
    /// Whether the output is replaced in one step.
    atomic: bool,
}

const SET: &[&str] = &["i.json", "a", "b", "sub/c"];
const RECEIPT: &str = "receipt.json";

const JOBS: [Job; 10] = [
    Job { name: "file", folder: false, files: &["a"], old: &[], able: true, atomic: true },
    Job { name: "file-force", folder: false, files: &["a"], old: &["a"], able: true, atomic: true },
    Job { name: "set", folder: false, files: SET, old: &[], able: true, atomic: false },
    Job { name: "set-weak", folder: false, files: SET, old: &[], able: false, atomic: false },
    Job {
        name: "set-force",
        folder: false,
        files: SET,
        old: &["i.json", "a", "b", "d", "sub/e"],
        able: true,
        atomic: false,
    },
    Job {
        name: "set-receipt",
        folder: false,
        files: &["i.json", RECEIPT, "a"],
        old: &["i.json", RECEIPT, "b"],
        able: true,
        atomic: false,
    },
    Job { name: "folder", folder: true, files: SET, old: &[], able: true, atomic: true },
    Job {
        name: "folder-force",
        folder: true,
        files: SET,
        old: &["i.json", "a", "sub/c", "d", "sub/e"],
        able: true,
        atomic: true,
    },
    Job { name: "folder-weak", folder: true, files: SET, old: &[], able: false, atomic: true },
    Job { name: "folder-weak-force", folder: true, files: SET, old: SET, able: false, atomic: false },
];

impl Job {
    fn destination(&self, home: &Path) -> Destination {
        let out = home.join("out");
        if self.folder { whole(&out) } else { beside(&out) }
    }

    /// Creates the older output, and unrelated files in and next to the output's folder.
    fn prepare(&self, home: &Path) {
        write(home, "foreign", "foreign");
        if !self.folder || !self.old.is_empty() {
            write(home, "out/foreign", "foreign");
            write(home, "out/sub/foreign", "foreign");
        }
        self.old.iter().for_each(|name| write(&home.join("out"), name, "old"));
    }

    fn run(&self, home: &Path, sync: bool) -> Result<Committed> {
        let disk = Disk { noreplace: self.able, exchange: self.able, links: self.able };
        recover(&self.destination(home))?;
        let mut stage = Stage::begin_on(&self.destination(home), disk)?;
        let files = fill(&stage, self.files, "new");
        let stale = self.old.iter().filter(|name| !self.files.contains(name));
        stage.supersede(stale.map(|name| StagedFile::new(*name, kind_of(name))).collect())?;
        stage.commit(&files, CommitOptions { force: !self.old.is_empty(), sync })
    }

    /// Returns `Some(false)` if the output is still the old output, `Some(true)` if it is the new
    /// output, and `None` for any state between the two.
    fn state(&self, home: &Path) -> Option<bool> {
        let there = |names: &[&str], text: &str| {
            let found = tree(&home.join("out"));
            let output: Vec<_> =
                found.iter().filter(|(n, t)| !n.starts_with(".ferry") && t != "foreign").collect();
            output.len() == names.len()
                && output.iter().all(|(n, t)| names.contains(&n.as_str()) && t == text)
        };
        if !home.join("out").exists() || there(self.old, "old") {
            return Some(false);
        }
        there(self.files, "new").then_some(true)
    }

    /// Checks the conditions that must hold at every moment of a commit.
    fn check(&self, home: &Path, when: &str) {
        let out = home.join("out");
        assert_eq!(fs::read_to_string(home.join("foreign")).unwrap(), "foreign", "{when}");
        if self.folder && self.old.is_empty() {
            assert!(!out.join("foreign").exists(), "{when}");
        } else {
            for foreign in ["foreign", "sub/foreign"] {
                assert_eq!(fs::read_to_string(out.join(foreign)).unwrap(), "foreign", "{when}");
            }
        }
        match self.state(home) {
            Some(_) => return,
            None => assert!(!self.atomic, "{when}: {:?}", tree(home)),
        }
        // Between the old and the new state, the index may be missing. Otherwise, all files that
        // the index lists belong to the same generation as the index. The same applies to the
        // receipt, if it exists.
        let Ok(index) = fs::read_to_string(out.join("i.json")) else { return };
        let named = if index == "old" { self.old } else { self.files };
        for name in named.iter().filter(|name| **name != RECEIPT || out.join(name).exists()) {
            assert_eq!(fs::read_to_string(out.join(name)).unwrap(), index, "{when}: {name}");
        }
    }
}

/// Performs the work of a child process. Only child processes run this test.
#[test]
fn child() {
    let (Ok(job), Some(home)) = (std::env::var(JOB), std::env::var_os(HOME)) else { return };
    let home = Path::new(&home);
    std::env::var(FAULT).map(|fault| fault::set(&fault).unwrap()).unwrap();
    let job_of = |name: &str| *JOBS.iter().find(|job| job.name == name).unwrap();
    let done = match job.split_once(' ') {
        Some(("commit", name)) => job_of(name).run(home, false).map(drop),
        Some(("sync", name)) => job_of(name).run(home, true).map(drop),
        Some(("recover", name)) => recover(&job_of(name).destination(home)).map(drop),
        Some(("limit", _)) => limited(home),
        _ => panic!("{job}"),
    };
    if let Err(error) = done {
        eprintln!("{error}");
        std::process::exit(3);
    }
}

/// Writes a file that is larger than the process's limit.
fn limited(home: &Path) -> Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(rustix::process::Signal::XFSZ.as_raw(), flag).unwrap();
    setrlimit(Resource::Fsize, Rlimit { current: Some(4096), maximum: Some(4096) }).unwrap();
    Stage::begin(&beside(home))?.create("sub/model", Some(4097)).map(drop)
}

fn spawn(job: &str, home: &Path, fault: &str) -> (ExitStatus, String) {
    let module = module_path!().split_once("::").unwrap().1;
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([&format!("{module}::child"), "--exact", "--nocapture", "--test-threads=1"])
        .envs([(JOB, job), (FAULT, fault)])
        .env(HOME, home)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let spawned = {
        let _alone = spawning();
        command.spawn().unwrap()
    };
    let output = spawned.wait_with_output().unwrap();
    (output.status, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn is_killed(status: ExitStatus) -> bool {
    status.signal() == Some(rustix::process::Signal::KILL.as_raw())
}

/// The stages that the commit reaches. The other stages are reached earlier in a run.
fn commit_stages() -> impl Iterator<Item = &'static str> {
    STAGES.into_iter().filter(|stage| !["copied", "sealed", "verified"].contains(stage))
}

/// Runs `job` in a new folder, and kills it at `moment`.
fn spawn_anew(job: Job, verb: &str, moment: &str) -> (TempDir, ExitStatus, String) {
    let home = home();
    job.prepare(home.path());
    let (status, stderr) = spawn(&format!("{verb} {}", job.name), home.path(), moment);
    (home, status, stderr)
}

/// Returns the moments that `job` reaches if nothing fails. A moment is a stage and the number of
/// times that the stage has been reached.
fn moments(job: Job, verb: &str) -> Vec<(&'static str, usize)> {
    let home = home();
    job.prepare(home.path());
    let (committed, reached) = {
        let _alone = nothing_spawns();
        fault::reached(|| job.run(home.path(), verb == "sync"))
    };
    committed.unwrap();
    job.check(home.path(), job.name);
    assert_eq!(job.state(home.path()), Some(true), "{}", job.name);
    let times = |stage: &str| reached.iter().filter(|name| *name == stage).count();
    commit_stages().flat_map(|stage| (1..=times(stage)).map(move |nth| (stage, nth))).collect()
}

/// Runs `job` once for each moment that it reaches, and kills it at that moment. Returns all stages
/// that were reached.
fn walk(job: Job, verb: &str, mut killed: impl FnMut(&Path, &str)) -> BTreeSet<&'static str> {
    let moments = moments(job, verb);
    for (stage, nth) in &moments {
        let moment = format!("{stage}@{nth}");
        let (home, status, stderr) = spawn_anew(job, verb, &moment);
        let when = format!("{}, {moment}", job.name);
        assert!(is_killed(status), "{when}: {status}: {stderr}");
        job.check(home.path(), &when);
        killed(home.path(), &moment);
    }
    moments.into_iter().map(|(stage, _)| stage).collect()
}

/// Checks that the next run leaves no stage behind, and that the output is either the old one or
/// the new one.
fn settled(job: Job, home: &Path, when: &str) {
    let recovered = recover(&job.destination(home)).unwrap();
    assert!(recovered.notes.is_empty(), "{when}: {recovered:?}");
    job.check(home, when);
    assert!(job.state(home).is_some(), "{when}: {:?}", tree(home));
    assert!(tree(home).iter().all(|(name, _)| !name.contains(".ferry")), "{when}: {:?}", tree(home));
}

#[test]
fn a_kill_at_any_stage_leaves_what_was_promised() {
    let mut seen = BTreeSet::new();
    for job in JOBS {
        seen.extend(walk(job, "commit", |home, moment| settled(job, home, moment)));
        if ["file", "set-force", "folder-force"].contains(&job.name) {
            walk(job, "sync", |home, moment| settled(job, home, moment));
        }
    }
    assert_eq!(seen, commit_stages().collect());
}

#[test]
fn a_kill_in_the_recovery_leaves_what_was_promised() {
    let mut kills = 0;
    for job in JOBS.into_iter().filter(|job| !job.atomic || job.name == "folder-force") {
        walk(job, "commit", |home, moment| {
            // Kill the recovery from this state at each stage that it reaches.
            let when = format!("{}, {moment}", job.name);
            let ((), reached) = fault::reached(|| settled(job, home, &when));
            for stage in [
                "old-index-removed",
                "file-renamed",
                "old-receipt-removed",
                "index-renamed",
                "stale-removed",
                "old-removed",
            ] {
                if !reached.iter().any(|name| name == stage) {
                    continue;
                }
                let when = format!("{when}, then twice {stage}");
                let (home, ..) = spawn_anew(job, "commit", moment);
                for nth in 0..2 {
                    let (status, stderr) = spawn(&format!("recover {}", job.name), home.path(), stage);
                    assert!(is_killed(status) || (nth > 0 && status.success()), "{when}: {status}: {stderr}");
                    kills += u32::from(is_killed(status));
                    job.check(home.path(), &when);
                }
                settled(job, home.path(), &when);
            }
        });
    }
    assert!(kills >= 20, "{kills}");
}

#[test]
fn an_error_at_any_stage_is_reported_and_leaves_what_was_promised() {
    for job in JOBS {
        let stages: BTreeSet<_> = moments(job, "commit").into_iter().map(|(stage, _)| stage).collect();
        for stage in stages {
            let home = home();
            job.prepare(home.path());
            let fault = format!("{stage}=enospc");
            let (status, stderr) = spawn(&format!("commit {}", job.name), home.path(), &fault);
            let when = format!("{}, {fault}", job.name);
            job.check(home.path(), &when);
            let forced = !job.old.is_empty();
            if status.code() == Some(3) {
                assert!(stderr.contains("No space left"), "{when}: {stderr}");
                let left = tree(home.path()).iter().any(|(name, _)| name.contains(".ferry"));
                assert!(forced || !left, "{when}");
            } else {
                assert!(status.success(), "{when}: {stderr}");
            }
            settled(job, home.path(), &when);
        }
    }
}

#[test]
fn a_file_over_the_process_limit_is_an_error_that_names_it() {
    let home = home();
    let (status, stderr) = spawn("limit x", home.path(), "copied");
    assert_eq!(status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("os error") && stderr.contains("sub/model"), "{stderr}");
    assert!(tree(home.path()).is_empty());
}
