//! The history of a manifest according to its journals: what happened to each output and each file
//! group.

use super::files::StampedFile;
use super::record::{OutputRecord, Record, this_host};
use super::scan::GroupScan;
use std::collections::HashMap;
use std::path::PathBuf;
use tensorferry::Session;
use tensorferry::request::Request;
use tensorferry_core::read::identity::FileIdentity;

#[derive(Debug, Default)]
pub(crate) struct History {
    outputs: HashMap<String, OutputHistory>,
    scans: HashMap<String, GroupScan>,
    /// Whether the lines that are being read were written on a different machine.
    is_elsewhere: bool,
    /// Number of damaged lines, which were skipped.
    pub(super) damaged: usize,
    /// Number of skipped lines without a line break at the end, which another run may still be
    /// writing.
    unfinished: usize,
}

/// The history of one output.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutputHistory {
    /// The last commit that was started, whether or not it was completed.
    commit: Option<Commit>,
    /// For each other journal, the last commit that was started. The disk shows which of these
    /// commits were completed.
    others: Vec<Commit>,
    /// Files that the last run made visible before it committed.
    visible: Vec<StampedFile>,
    /// The reason why the job failed in the last run, if it failed.
    pub(crate) failure: Option<String>,
    /// All files of the output that have ever become visible, each with the identities recorded for
    /// the file.
    pub(crate) owned: HashMap<PathBuf, Vec<FileIdentity>>,
}

/// A commit that was started.
#[derive(Debug, Clone)]
pub(crate) struct Commit {
    pub(crate) at: String,
    /// The key of the job, if it is a planned job. The key is the same for every attempt to run the
    /// job.
    pub(crate) key: Option<String>,
    /// Whether the commit was made on a different machine. There, the files may have different
    /// inode numbers.
    pub(crate) is_elsewhere: bool,
    pub(crate) request: Request,
    pub(crate) made: OutputRecord,
    /// Whether the commit is known to be completed.
    pub(crate) done: bool,
}

impl OutputHistory {
    /// Returns the last commit that was started in each journal, newest first.
    pub(crate) fn commits(&self) -> impl Iterator<Item = &Commit> {
        self.commit.iter().chain(&self.others)
    }

    fn merge(&mut self, other: Self) {
        self.others.extend(other.others);
        if let Some(commit) = other.commit {
            let older = match &mut self.commit {
                Some(own) if own.at >= commit.at => Some(commit),
                Some(own) => Some(std::mem::replace(own, commit)),
                own @ None => {
                    *own = Some(commit);
                    None
                }
            };
            self.others.extend(older);
        }
        self.visible.extend(other.visible);
        self.failure = self.failure.take().or(other.failure);
        for (file, identities) in other.owned {
            self.owned.entry(file).or_default().extend(identities);
        }
    }

    /// Returns the files that were written for the output and became visible. If a file was written
    /// several times, the result contains the file once for each state.
    pub(crate) fn written(&self) -> Vec<StampedFile> {
        let stamped =
            |path: &PathBuf, identity: &FileIdentity| StampedFile { path: path.clone(), identity: *identity };
        let files = self
            .owned
            .iter()
            .flat_map(|(path, identities)| identities.iter().map(move |id| stamped(path, id)));
        files.collect()
    }

    /// Returns the visible files of this output. These are the files of completed commits, and the
    /// visible files of unfinished commits.
    pub(crate) fn visible_files(&self, session: &Session) -> Vec<PathBuf> {
        let last = self.commits().filter(|commit| !commit.done).flat_map(|commit| &commit.made.outputs);
        let last = last.chain(&self.visible);
        let visible = last.filter(|file| file.check_output(session).is_ok()).map(|file| file.path.clone());
        self.owned.keys().cloned().chain(visible).collect()
    }
}

impl History {
    pub(crate) fn of(&self, output: &str) -> Option<&OutputHistory> {
        self.outputs.get(output)
    }

    pub(crate) fn outputs(&self) -> impl Iterator<Item = (&str, &OutputHistory)> {
        self.outputs.iter().map(|(output, known)| (output.as_str(), known))
    }

    /// Returns the last scan that has the given key.
    pub(crate) fn scan(&self, key: &str) -> Option<&GroupScan> {
        self.scans.get(key)
    }

    /// Returns a note about damaged lines.
    pub(crate) fn damage(&self) -> Option<String> {
        match self.damaged {
            0 => None,
            1 => Some(
                "a line of the journal is damaged; ferry ignores it and rechecks the affected job".to_owned(),
            ),
            lines => Some(format!(
                "{lines} lines of the journal are damaged; ferry ignores them and rechecks the affected jobs"
            )),
        }
    }

    /// Returns the number of damaged lines. Lines without a line break at the end are not counted.
    pub(crate) fn damaged_lines(&self) -> usize {
        self.damaged - self.unfinished
    }

    /// Reads the lines of one journal.
    pub(super) fn of_lines(bytes: &[u8]) -> Self {
        let mut history = Self::default();
        history.add_lines(bytes);
        history
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.scans.extend(other.scans);
        self.damaged += other.damaged;
        self.unfinished += other.unfinished;
        for (output, known) in other.outputs {
            self.outputs.entry(output).or_default().merge(known);
        }
    }

    fn add_lines(&mut self, bytes: &[u8]) {
        for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match Record::from_line(line) {
                Some(record) => self.add(record),
                None => self.damaged += 1,
            }
        }
        let last = bytes.rsplit(|&byte| byte == b'\n').next().unwrap_or_default();
        self.unfinished += usize::from(!last.is_empty() && Record::from_line(last).is_none());
    }

    fn add(&mut self, record: Record) {
        match record {
            Record::Begin { host, .. } => self.is_elsewhere = host.is_some_and(|host| host != this_host()),
            Record::End { .. } => {}
            Record::Scanned { key, scan } => drop(self.scans.insert(key, *scan)),
            Record::Commit { at, output, key, request, made } => {
                let known = self.outputs.entry(output).or_default();
                known.failure = None;
                let (request, made, is_elsewhere) = (*request, *made, self.is_elsewhere);
                known.commit = Some(Commit { at, key, is_elsewhere, request, made, done: false });
            }
            Record::Done { output, outputs, .. } => {
                let known = self.outputs.entry(output).or_default();
                known.visible.clear();
                if let Some(commit) = &mut known.commit {
                    let news = |file: &StampedFile| outputs.iter().find(|new| new.path == file.path);
                    for file in &mut commit.made.outputs {
                        *file = news(file).cloned().unwrap_or_else(|| file.clone());
                    }
                    commit.done = true;
                    for file in &commit.made.outputs {
                        let file = if commit.is_elsewhere { file.without_inode() } else { file.clone() };
                        known.owned.entry(file.path).or_default().push(file.identity);
                    }
                }
            }
            Record::Visible { output, outputs } => self.outputs.entry(output).or_default().visible = outputs,
            Record::Failed { output, reason, .. } => {
                self.outputs.entry(output).or_default().failure = Some(reason);
            }
        }
    }
}
