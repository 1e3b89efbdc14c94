//! A scan opens libraries in a child process to inspect them, so that a library that crashes, exits
//! or hangs affects only the child.
//!
//! The child receives the libraries' paths. The child prints `ready` once, then one line per
//! library.
//!
//! A library that ends the child process, or does not answer within ten seconds, is quarantined.
//! The cache stores the quarantine. ferry opens the library again only if the library changes or if
//! the user runs `ferry plugin check`. Refusals that may be temporary (an `init` that fails, a
//! missing dependency) are not stored. If no child process can be started, the program opens the
//! library itself.

use crate::context::fault;
use crate::formats::plugin::{Inspection, inspect, open};
use crate::formats::refusal::Refusal;
use crate::platform::end_with_parent;
use rustix::process::{Resource, Rlimit, setrlimit};
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

/// The line that the child prints when it has started. Any later failure is caused by a library.
const READY: &str = "ready";
/// Maximum number of libraries per child process, so that their paths fit in its command line.
const MAX_LIBRARIES: usize = 100;
/// Time limit for opening a library. Opening usually takes milliseconds, but disks may be slow and
/// machines may be busy.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval for checking whether the child has exited after it closed its pipe.
const TICK: Duration = Duration::from_millis(2);
/// Signals that users and systems send to processes that work correctly.
const EXTERNAL_SIGNALS: [i32; 4] = [1, 2, 3, 15];

/// Returns the time limit for opening a library. In test builds, a test may set the limit in
/// seconds.
pub(super) fn time() -> Duration {
    let requested = || std::env::var("FERRY_FAULT_SCAN_SECONDS").ok();
    fault::ARE_KNOWN
        .then(requested)
        .flatten()
        .and_then(|seconds| seconds.parse().ok())
        .map_or(OPEN_TIMEOUT, Duration::from_secs)
}

/// The command that starts the child process, and its time limit.
#[derive(Debug, Clone)]
pub(super) struct Scanner {
    pub(super) program: PathBuf,
    /// Arguments that precede the paths of the libraries.
    pub(super) arguments: Vec<OsString>,
    pub(super) time: Duration,
    /// Whether to show what the libraries print when they are opened.
    pub(super) is_loud: bool,
}

/// Names of the most common crash signals.
const CRASHES: [(i32, &str); 6] = [
    (4, " (SIGILL)"),
    (6, " (SIGABRT)"),
    (7, " (SIGBUS)"),
    (8, " (SIGFPE)"),
    (9, " (SIGKILL)"),
    (11, " (SIGSEGV)"),
];

/// The result of inspecting one library.
pub(super) type ScanResult = std::result::Result<Inspection, Refusal>;

impl Scanner {
    /// Inspects these libraries, and returns the results in order, or `None` if no process can be
    /// started.
    pub(super) fn scan(&self, libraries: &[&Path]) -> Option<Vec<ScanResult>> {
        let mut found = Vec::new();
        while let Some(rest) = libraries.get(found.len()..).filter(|rest| !rest.is_empty()) {
            let mut process = self.start(&rest[..rest.len().min(MAX_LIBRARIES)])?;
            let (answers, ended) = process.answers(rest.len().min(MAX_LIBRARIES), self.time)?;
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
        // The thread ends when the pipe closes. The pipe may remain open if a library has started a
        // process that still uses the pipe.
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
    /// Returns the results for up to `count` libraries. If the child ends early, also returns the
    /// refusal of the next library, which ended the child. Returns `None` if the child ended before
    /// it opened any library.
    fn answers(&mut self, count: usize, time: Duration) -> Option<(Vec<ScanResult>, Option<Refusal>)> {
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

    /// Returns the refusal for a process that closed its pipe. The refusal describes how the
    /// process ended. A library may close the pipe without ending the process.
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
        // The child is killed even after the last answer, because what libraries do when the
        // process exits does not matter.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn quarantined(how: impl Into<String>) -> Refusal {
    Refusal::Quarantined(how.into())
}

fn too_long(time: Duration) -> Refusal {
    quarantined(format!("did not return within {} s", time.as_secs_f32()))
}

fn ended(status: ExitStatus) -> Refusal {
    match (status.signal(), status.code()) {
        (Some(signal), _) if EXTERNAL_SIGNALS.contains(&signal) => {
            Refusal::CannotOpen(format!("its inspection was ended by signal {signal}"))
        }
        (Some(signal), _) => {
            let name = CRASHES.iter().find(|(number, _)| *number == signal).map_or("", |(_, name)| name);
            quarantined(format!("crashed with signal {signal}{name}"))
        }
        (None, Some(code)) => quarantined(format!("ended the process with exit code {code}")),
        (None, None) => quarantined("ended the process"),
    }
}

/// Runs the child process of a scan: opens these libraries and prints the results to standard
/// output. A program that passes itself to
/// [`PluginSearch::scan_with`](crate::formats::load::PluginSearch::scan_with) calls this function
/// first when it is started as that child.
pub fn scan_plugins(libraries: impl IntoIterator<Item = impl Into<PathBuf>>) -> Result<()> {
    let failed = |e: std::io::Error| Error::from(e).context("cannot answer");
    // Crashes are expected here: write no core files, and end this process when its parent ends.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = end_with_parent();
    // Libraries may print to standard output; keep their output separate from the answers.
    let answers = rustix::io::fcntl_dupfd_cloexec(stdout(), 3).map_err(|e| failed(e.into()))?;
    dup2_stdout(stderr()).map_err(|e| failed(e.into()))?;
    let mut answers = File::from(answers);
    writeln!(answers, "{READY}").map_err(failed)?;
    for library in libraries {
        let found: ScanResult = open(&library.into()).map(|plugin| {
            let found = inspect(&plugin);
            // The plugin is not dropped, because its destructors may crash too. The inspection does
            // not cover destructors.
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

    /// Returns a scanner whose process is a shell script; `$@` are the libraries.
    fn scripted(script: &str) -> Scanner {
        Scanner {
            program: "/bin/sh".into(),
            arguments: ["-c", script, "sh"].map(OsString::from).to_vec(),
            time: Duration::from_millis(500),
            is_loud: false,
        }
    }

    fn scan(script: &str, libraries: &[&str]) -> Option<Vec<ScanResult>> {
        let libraries: Vec<&Path> = libraries.iter().map(Path::new).collect();
        scripted(script).scan(&libraries)
    }

    /// A script that runs each library's name as a command, and then answers `not a plugin` for
    /// that library.
    const RUNS_NAMES: &str =
        r#"echo ready; for library; do eval "$library"; echo '{"Err":"NotAPlugin"}'; done"#;

    fn how(found: &ScanResult) -> &str {
        match found {
            Err(Refusal::Quarantined(how)) => how,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_library_that_ends_the_process_is_told_and_the_others_are_looked_at() {
        let libraries = ["true", "kill -s ABRT $$", "exit 7", "true", "kill -s KILL $$", "true"];
        let found = scan(RUNS_NAMES, &libraries).unwrap();
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
        let found = scan(RUNS_NAMES, &["sleep 60", "true"]).unwrap();
        assert!(how(&found[0]).contains("within 0.5 s"), "{found:?}");
        assert_eq!(found[1], Err(Refusal::NotAPlugin));
        assert!(start.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_library_that_writes_into_the_pipe_is_not_believed() {
        let found = scan(RUNS_NAMES, &["echo nonsense", "true"]).unwrap();
        assert!(how(&found[0]).contains("pipe"), "{found:?}");
        assert_eq!(found[1], Err(Refusal::NotAPlugin));
    }

    #[test]
    fn an_end_from_outside_is_nobodys_fault() {
        let found = scan(RUNS_NAMES, &["kill -s TERM $$"]).unwrap();
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
        let libraries = vec!["true"; MAX_LIBRARIES * 2 + 1];
        assert_eq!(scan(RUNS_NAMES, &libraries).unwrap().len(), libraries.len());
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
