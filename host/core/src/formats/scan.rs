//! A scan opens libraries in a process of its own, to see what they are: one that crashes, ends its process or does not
//! come back does so there.
//!
//! The process is given the libraries' paths and says, a line each, `ready` once, then what it found.

use crate::context::fault;
use crate::formats::plugin::{Look, look, open};
use crate::formats::refusal::Refusal;
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use rustix::stdio::{dup2_stdout, stderr, stdout};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tensorferry_sdk::{Error, Result};

/// What the process says once it runs: what ends it later is a library's fault.
const READY: &str = "ready";
/// Libraries that one process is given, so that their paths fit its command line.
const MOST_LIBRARIES: usize = 100;
/// How long opening a library may take. Milliseconds are usual; a slow disk and a busy machine are not hostile.
const TIME: Duration = Duration::from_secs(10);
/// How often an ended pipe's process is looked at.
const TICK: Duration = Duration::from_millis(2);
/// Signals by which people and systems end what is well.
const ENDED_FROM_OUTSIDE: [i32; 4] = [1, 2, 3, 15];

/// Returns how long opening a library may take: in builds for tests, the seconds that a test asks for.
pub(super) fn time() -> Duration {
    let asked = || std::env::var("FERRY_FAULT_SCAN_SECONDS").ok();
    fault::ARE_KNOWN
        .then(asked)
        .flatten()
        .and_then(|seconds| seconds.parse().ok())
        .map_or(TIME, Duration::from_secs)
}

/// How the process is started.
#[derive(Debug, Clone)]
pub(super) struct Scanner {
    pub(super) program: PathBuf,
    /// What stands before the libraries' paths.
    pub(super) arguments: Vec<OsString>,
    pub(super) time: Duration,
    /// Whether what the libraries print on opening is shown.
    pub(super) is_loud: bool,
}

/// What the commonest signals of crashes are called.
const CRASHES: [(i32, &str); 6] = [
    (4, " (SIGILL)"),
    (6, " (SIGABRT)"),
    (7, " (SIGBUS)"),
    (8, " (SIGFPE)"),
    (9, " (SIGKILL)"),
    (11, " (SIGSEGV)"),
];

/// What was found of one library.
pub(super) type Found = std::result::Result<Look, Refusal>;

impl Scanner {
    /// What each of these libraries is, in their order. `None`, if no process can be started.
    pub(super) fn scan(&self, libraries: &[&Path]) -> Option<Vec<Found>> {
        let mut found = Vec::new();
        while let Some(rest) = libraries.get(found.len()..).filter(|rest| !rest.is_empty()) {
            let mut process = self.start(&rest[..rest.len().min(MOST_LIBRARIES)])?;
            let (answers, ended) = process.answers(rest.len().min(MOST_LIBRARIES), self.time)?;
            found.extend(answers);
            found.extend(ended.map(Err));
        }
        Some(found)
    }

    fn start(&self, libraries: &[&Path]) -> Option<ScanProcess> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).args(libraries).stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(if self.is_loud { Stdio::inherit() } else { Stdio::null() });
        let mut process = command.spawn().ok()?;
        let stdout = process.stdout.take()?;
        let (sender, lines) = channel();
        // It ends with the pipe, which a process that a library started may hold open.
        let read = move || {
            let lines = BufReader::new(stdout).lines().map_while(std::result::Result::ok);
            lines.map(|line| sender.send(line)).find(std::result::Result::is_err);
        };
        std::thread::Builder::new().name("plugin scan".to_owned()).spawn(read).ok()?;
        Some(ScanProcess { process, lines })
    }
}

struct ScanProcess {
    process: Child,
    lines: Receiver<String>,
}

impl ScanProcess {
    /// What it says of so many libraries; if it ends before, why, of the library that comes next. `None`, if it
    /// never came so far as to open one.
    fn answers(&mut self, count: usize, time: Duration) -> Option<(Vec<Found>, Option<Refusal>)> {
        if self.lines.recv_timeout(time).ok()? != READY {
            return None;
        }
        let mut found = Vec::new();
        while found.len() < count {
            match self.lines.recv_timeout(time) {
                Ok(line) => match serde_json::from_str(&line) {
                    Ok(answer) => found.push(answer),
                    Err(_) => return Some((found, Some(quarantined("wrote into the host's pipe")))),
                },
                Err(RecvTimeoutError::Timeout) => return Some((found, Some(too_long(time)))),
                Err(RecvTimeoutError::Disconnected) => {
                    return Some((found, Some(self.ended(time))));
                }
            }
        }
        Some((found, None))
    }

    /// How a process ended that has closed its pipe; a library may close pipes as well.
    fn ended(&mut self, time: Duration) -> Refusal {
        let start = Instant::now();
        while start.elapsed() < time {
            match self.process.try_wait() {
                Ok(Some(status)) => return ended(status),
                Ok(None) => std::thread::sleep(TICK),
                Err(_) => return quarantined("ended the process"),
            }
        }
        too_long(time)
    }
}

impl Drop for ScanProcess {
    fn drop(&mut self) {
        // Also after the last answer: what libraries do when their process ends is of no interest.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn quarantined(how: impl Into<String>) -> Refusal {
    Refusal::Quarantined(how.into())
}

fn too_long(time: Duration) -> Refusal {
    quarantined(format!("did not come back within {} s", time.as_secs_f32()))
}

fn ended(status: ExitStatus) -> Refusal {
    match (status.signal(), status.code()) {
        (Some(signal), _) if ENDED_FROM_OUTSIDE.contains(&signal) => {
            Refusal::CannotOpen(format!("the look at it was ended by signal {signal}"))
        }
        (Some(signal), _) => {
            let name = CRASHES.iter().find(|(number, _)| *number == signal).map_or("", |(_, name)| name);
            quarantined(format!("crashed with signal {signal}{name}"))
        }
        (None, Some(code)) => quarantined(format!("ended the process with exit code {code}")),
        (None, None) => quarantined("ended the process"),
    }
}

/// Does what a scan's process has to do: opens these libraries and writes to the standard output what they are. A
/// program that names itself to [`PluginSearch::scan_with`](crate::formats::load::PluginSearch::scan_with) calls this when it is
/// started so, before it does anything else.
///
/// # Errors
/// I/o, if there is nobody to answer.
pub fn scan_plugins(libraries: impl IntoIterator<Item = impl Into<PathBuf>>) -> Result<()> {
    let failed = |e: std::io::Error| Error::from(e).context("cannot answer");
    // A crash is expected here: no files of it, and nothing is left running.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    // What libraries print does not come between.
    let answers = rustix::io::fcntl_dupfd_cloexec(stdout(), 3).map_err(|e| failed(e.into()))?;
    dup2_stdout(stderr()).map_err(|e| failed(e.into()))?;
    let mut answers = File::from(answers);
    writeln!(answers, "{READY}").map_err(failed)?;
    for library in libraries {
        let found: Found = open(&library.into()).map(|plugin| {
            let found = look(&plugin);
            // Destructors may crash too, and are not what is looked at.
            std::mem::forget(plugin);
            found
        });
        let mut line = serde_json::to_vec(&found).map_err(|e| failed(e.into()))?;
        line.push(b'\n');
        answers.write_all(&line).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::formats::plugin::PluginIdentity;

    /// A scanner whose process is a shell script; `$@` are the libraries.
    fn scripted(script: &str) -> Scanner {
        Scanner {
            program: "/bin/sh".into(),
            arguments: ["-c", script, "sh"].map(OsString::from).to_vec(),
            time: Duration::from_millis(500),
            is_loud: false,
        }
    }

    fn scan(script: &str, libraries: &[&str]) -> Option<Vec<Found>> {
        let libraries: Vec<&Path> = libraries.iter().map(Path::new).collect();
        scripted(script).scan(&libraries)
    }

    /// A script that answers `not a plugin` for each library, and does what the library's name says first.
    const OBEYS: &str = r#"echo ready; for library; do eval "$library"; echo '{"Err":"NotAPlugin"}'; done"#;

    fn how(found: &Found) -> &str {
        match found {
            Err(Refusal::Quarantined(how)) => how,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_library_that_ends_the_process_is_told_and_the_others_are_looked_at() {
        let libraries = ["true", "kill -s ABRT $$", "exit 7", "true", "kill -s KILL $$", "true"];
        let found = scan(OBEYS, &libraries).unwrap();
        assert_eq!(found.len(), libraries.len());
        for good in [0, 3, 5] {
            assert_eq!(found[good], Err(Refusal::NotAPlugin));
        }
        assert!(how(&found[1]).contains("signal 6 (SIGABRT)"), "{found:?}");
        assert!(how(&found[2]).contains("exit code 7"), "{found:?}");
        assert!(how(&found[4]).contains("signal 9"), "{found:?}");
    }

    #[test]
    fn a_library_that_does_not_come_back_is_left_after_a_time() {
        let start = Instant::now();
        let found = scan(OBEYS, &["sleep 60", "true"]).unwrap();
        assert!(how(&found[0]).contains("within 0.5 s"), "{found:?}");
        assert_eq!(found[1], Err(Refusal::NotAPlugin));
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_library_that_writes_into_the_pipe_is_not_believed() {
        let found = scan(OBEYS, &["echo nonsense", "true"]).unwrap();
        assert!(how(&found[0]).contains("pipe"), "{found:?}");
        assert_eq!(found[1], Err(Refusal::NotAPlugin));
    }

    #[test]
    fn an_end_from_outside_is_nobodys_fault() {
        let found = scan(OBEYS, &["kill -s TERM $$"]).unwrap();
        assert!(matches!(&found[0], Err(Refusal::CannotOpen(why)) if why.contains("signal 15")), "{found:?}");
        assert!(found[0].as_ref().is_err_and(|why| !why.is_lasting()));
    }

    #[test]
    fn a_process_that_cannot_be_started_blames_no_library() {
        assert_eq!(scan("exit 1", &["true"]), None);
        assert_eq!(scan("echo hello", &["true"]), None);
        let nowhere = Scanner { program: "/no/such/program".into(), ..scripted("") };
        assert_eq!(nowhere.scan(&[Path::new("a")]), None);
    }

    #[test]
    fn many_libraries_are_looked_at_in_several_processes() {
        let libraries = vec!["true"; MOST_LIBRARIES * 2 + 1];
        assert_eq!(scan(OBEYS, &libraries).unwrap().len(), libraries.len());
    }

    #[test]
    fn a_look_goes_through_the_pipe() {
        let identity = PluginIdentity {
            name: "a".to_owned(),
            version: "1".to_owned(),
            sdk_version: "2".to_owned(),
            revision: (1, 2),
        };
        let text = format!(
            "{{\"Ok\":{{\"identity\":{},\"formats\":[]}}}}",
            serde_json::to_string(&identity).unwrap()
        );
        let found = scan(&format!("echo ready; echo '{text}'"), &["a"]).unwrap();
        let look = found[0].as_ref().unwrap();
        assert_eq!((&look.identity, look.descriptions()), (&identity, Some(Vec::new())));
    }
}
