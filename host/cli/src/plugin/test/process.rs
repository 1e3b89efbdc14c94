//! Runs and monitors the process that tests a library.

use super::examine::ExamineMessage;
use super::report::{Format, Rule};
use crate::args::TestPlugin;
use crate::platform::memory_of;
use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tensorferry_sdk::{Error, Result};

/// Maximum duration of a call to the library. Calls are short, because the samples are small.
const CALL_TIME: Duration = Duration::from_secs(10);
/// Maximum memory of the test process. The tensors of a sample need less. A library that allocates
/// memory for a damaged length needs more.
const MAX_MEMORY: u64 = 2 << 30;
/// Interval at which the memory of the process is checked.
const TICK: Duration = Duration::from_millis(20);

/// Rules that are checked in addition to the rules of the conformance suite. The suite runs only if
/// the library complies with the first rule.
const ACCEPTED: (&str, &str) = ("B1", "the host accepts the library");
const COMES_BACK: (&str, &str) = ("B2", "no call ends the process or hangs");

/// Tests each format of a library. If the library ends the test process, that is a violation of a
/// rule, and the other rules have no results.
pub(super) fn examine(command: &TestPlugin) -> Result<Vec<Format>> {
    let mut process = Process::start(command, None)?;
    let mut last = (String::new(), "opening the library".to_owned());
    loop {
        match process.line() {
            Ok(ExamineMessage::Before { format, input }) => last = (format, input),
            Ok(ExamineMessage::Found(mut formats)) => {
                for format in &mut formats {
                    let own = [ACCEPTED, COMES_BACK].map(|(number, rule)| Rule::held(number, rule));
                    format.rules.splice(0..0, own);
                }
                return Ok(formats);
            }
            Ok(ExamineMessage::Failed(why)) => return Err(Error::usage(why)),
            Ok(ExamineMessage::Kept(_)) => return Err(Error::io("the test process ended too early")),
            Err(how) => {
                let (id, input) = last;
                let kept = kept(command, &input);
                let found = format!("{input}: the library {how}");
                let rule = Rule::broken(COMES_BACK.0, COMES_BACK.1, found, kept);
                return Ok(vec![Format {
                    id,
                    samples: command.samples.clone(),
                    damaged: 0,
                    rows: 0,
                    written: 0,
                    refused: Vec::new(),
                    rules: vec![Rule::held(ACCEPTED.0, ACCEPTED.1), rule],
                }]);
            }
        }
    }
}

/// Runs the suite again until the suite reaches the given input, and saves that input's files.
fn kept(command: &TestPlugin, input: &str) -> Option<PathBuf> {
    command.keep.as_ref()?;
    let mut process = Process::start(command, Some(input)).ok()?;
    loop {
        match process.line().ok()? {
            ExamineMessage::Before { .. } => {}
            ExamineMessage::Kept(kept) => return kept,
            ExamineMessage::Found(_) | ExamineMessage::Failed(_) => return None,
        }
    }
}

struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    fn start(test: &TestPlugin, stop_at: Option<&str>) -> Result<Self> {
        let failed = |e: std::io::Error| Error::from(e).context("cannot start the test process");
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        let option = |name: &str, value: Option<OsString>| value.map(|value| [OsString::from(name), value]);
        command.arg("examine-plugin");
        command.args(option("--from", test.from.as_ref().map(OsString::from)).into_iter().flatten());
        command.args(option("--keep", test.keep.as_ref().map(OsString::from)).into_iter().flatten());
        command.args(option("--stop-at", stop_at.map(OsString::from)).into_iter().flatten());
        command.arg("--").arg(&test.library).args(&test.samples);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let stdout = child.stdout.take().ok_or_else(|| Error::io("the test process has no output"))?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(std::result::Result::ok);
            lines.map(|line| sender.send(line)).find(std::result::Result::is_err);
        });
        Ok(Self { child, lines })
    }

    /// Returns the next line from the process, or a description of how the process ended.
    fn line(&mut self) -> Result<ExamineMessage, String> {
        let start = Instant::now();
        loop {
            match self.lines.recv_timeout(TICK) {
                Ok(line) => {
                    return serde_json::from_str(&line).map_err(|_| "wrote to the host's pipe".into());
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.end()),
                Err(RecvTimeoutError::Timeout) if start.elapsed() > CALL_TIME => {
                    return Err(format!("did not return within {} s", CALL_TIME.as_secs()));
                }
                Err(RecvTimeoutError::Timeout) if memory_of(self.child.id()) > MAX_MEMORY => {
                    return Err(format!("used more than {} GiB of memory", MAX_MEMORY >> 30));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn end(&mut self) -> String {
        match self.child.wait() {
            Ok(status) => ended(status),
            Err(_) => "ended the process".to_owned(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Kills the process first, so that the following wait does not block on a process that
        // hangs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ended(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("crashed with signal {signal}"),
        (None, Some(code)) => format!("ended the process with exit code {code}"),
        (None, None) => "ended the process".to_owned(),
    }
}
