//! The process that tests a library against the rules. Before each test, the process writes the
//! name of the next input to its standard output. After all tests, the process writes the results.
//! If the process ends early, the library is the cause.

use super::report::{Format, Rule, Violation};
use super::sample;
use crate::args::TestPlugin;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::stdio::{dup2_stdout, stderr, stdout};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tensorferry::{RegisteredFormat, Registry, Session};
use tensorferry_core::formats::probe::probe;
use tensorferry_core::platform::end_with_parent;
use tensorferry_sdk::conformance::{self, Examination, Observer, Sample};
use tensorferry_sdk::{Entry, Error, MemorySource, Result, Side};

/// A line that the test process writes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ExamineMessage {
    /// The next input to be tested.
    Before { format: String, input: String },
    /// The results for each format.
    Found(Vec<Format>),
    /// The reason why the test could not start.
    Failed(String),
    /// The process stopped before it tested the input named by `--stop-at`, and saved the input at
    /// this path.
    Kept(Option<PathBuf>),
}

/// A sample that the user passed, and its path.
struct Given {
    path: PathBuf,
    sample: Sample,
}

/// Exit code of the process if it cannot start the test.
const FAILED: u8 = 1;

/// Runs the test and returns the exit code.
pub(crate) fn run(command: &TestPlugin, stop_at: Option<&str>) -> u8 {
    // A faulty library may crash this process. The crash must not write a core file, and the
    // process must not outlive its parent.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = end_with_parent();
    // Text that a library prints must not be mixed with the messages to the parent process.
    let Ok(answers) = rustix::io::fcntl_dupfd_cloexec(stdout(), 3) else { return FAILED };
    if dup2_stdout(stderr()).is_err() {
        return FAILED;
    }
    let answers = Mutex::new(File::from(answers));
    let line = match examine(command, stop_at, &answers) {
        Ok(formats) => ExamineMessage::Found(formats),
        Err(error) => ExamineMessage::Failed(error.to_string()),
    };
    say(&answers, &line);
    0
}

fn say(answers: &Mutex<File>, line: &ExamineMessage) {
    let mut text = serde_json::to_vec(line).unwrap_or_default();
    text.push(b'\n');
    // If the parent process no longer reads the messages, this process has nothing left to do.
    if answers.lock().unwrap_or_else(PoisonError::into_inner).write_all(&text).is_err() {
        std::process::exit(1);
    }
}

fn examine(command: &TestPlugin, stop_at: Option<&str>, answers: &Mutex<File>) -> Result<Vec<Format>> {
    let registry = Registry::load_file(&command.library);
    let given: Result<Vec<Given>> = command
        .samples
        .iter()
        .map(|path| Ok(Given { path: path.clone(), sample: sample::load(path)? }))
        .collect();
    let mut of_format: Vec<(&RegisteredFormat, Vec<Given>)> =
        registry.formats().iter().map(|format| (format, Vec::new())).collect();
    for given in given? {
        let id = &format_of(&registry, &given, command.from.as_deref(), answers)?.description.id;
        let format = of_format.iter_mut().find(|(format, _)| format.description.id == *id);
        format.ok_or_else(|| Error::plugin("the format is not in its library"))?.1.push(given);
    }
    let mut formats = Vec::new();
    let mut faults = Vec::new();
    for (format, given) in of_format {
        let samples: Vec<Sample> = given.iter().map(|given| given.sample.clone()).collect();
        let keep = command.keep.as_deref().map(|folder| folder.join(&format.description.id));
        let follower = Follower { format, stop_at, keep: keep.as_deref(), answers };
        let examination = conformance::examine(format.unchecked(), &samples, &follower);
        let paths = given.into_iter().map(|given| given.path).collect();
        formats.push(found(&format.description.id, paths, &examination, keep.as_deref())?);
        faults.push(format.faults());
    }
    // Dropping the registry runs the destructors of the formats. A destructor may report a fault.
    drop(registry);
    for (format, faults) in formats.iter_mut().zip(faults) {
        if let Some(Err(error)) = faults.map(|faults| faults.check()) {
            let rule = "a destructor never fails";
            format.rules.push(Rule::broken("B5", rule, format!("destructor of the format: {error}"), None));
        }
    }
    Ok(formats)
}

/// Returns the format to which a sample belongs.
fn format_of<'a>(
    registry: &'a Registry,
    given: &Given,
    from: Option<&str>,
    answers: &Mutex<File>,
) -> Result<&'a RegisteredFormat> {
    if let Some(id) = from {
        return registry.format(id, Side::Reader);
    }
    let mut readers = registry.formats().iter().filter(|format| format.description.reads());
    // If only one format has a reader, the sample is not probed. A rule later checks that this
    // format recognizes the sample.
    if let (Some(only), None) = (readers.next(), readers.next()) {
        return Ok(only);
    }
    let input = format!("probing {}", given.path.display());
    say(answers, &ExamineMessage::Before { format: String::new(), input });
    let source = MemorySource::new(given.sample.entry().clone(), given.sample.files().clone());
    probe(registry.as_ref(), &source, None, &Session::new(1, 1 << 20))
}

/// Reports each input to the parent process before the input is tested.
struct Follower<'a> {
    format: &'a RegisteredFormat,
    stop_at: Option<&'a str>,
    keep: Option<&'a Path>,
    answers: &'a Mutex<File>,
}

impl Observer for Follower<'_> {
    fn before(&self, input: &str, files: Option<&Sample>) {
        if self.stop_at == Some(input) {
            let kept = files.zip(self.keep).and_then(|(files, folder)| kept(files, &folder.join("B2")).ok());
            say(self.answers, &ExamineMessage::Kept(kept));
            std::process::exit(0);
        }
        let format = self.format.description.id.clone();
        say(self.answers, &ExamineMessage::Before { format, input: input.to_owned() });
    }

    fn after(&self) -> Result<()> {
        self.format.check_faults()
    }
}

fn found(id: &str, samples: Vec<PathBuf>, examination: &Examination, keep: Option<&Path>) -> Result<Format> {
    let mut rules = Vec::new();
    for verdict in &examination.verdicts {
        let mut violations = Vec::new();
        for (place, violation) in verdict.violations.iter().enumerate() {
            let folder = keep.map(|folder| folder.join(format!("{}-{}", verdict.number, place + 1)));
            let kept = violation.input.as_ref().zip(folder);
            let kept = kept.map(|(files, folder)| kept_in(files, &folder)).transpose()?;
            violations.push(Violation { found: violation.found.clone(), kept });
        }
        rules.push(Rule {
            number: verdict.number.to_owned(),
            rule: verdict.rule.to_owned(),
            held: violations.is_empty(),
            checks: verdict.checks,
            violations,
        });
    }
    let report = &examination.report;
    Ok(Format {
        id: id.to_owned(),
        samples,
        damaged: report.damaged,
        rows: report.rows,
        written: report.written,
        refused: report.refused.clone(),
        rules,
    })
}

/// Writes the files of an input to a folder, and returns the path to pass as an input.
fn kept_in(files: &Sample, folder: &Path) -> Result<PathBuf> {
    kept(files, folder).map_err(|error| Error::from(error).file(folder.display().to_string()))
}

fn kept(files: &Sample, folder: &Path) -> std::io::Result<PathBuf> {
    for (name, bytes) in files.files() {
        let path = folder.join(name);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(path, bytes)?;
    }
    Ok(match files.entry() {
        Entry::Folder => folder.to_owned(),
        Entry::File(name) | Entry::Prefix(name) => folder.join(name),
    })
}
