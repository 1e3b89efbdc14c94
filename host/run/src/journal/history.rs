//! A history is what the journals of a manifest know: of each output, and of each file group.

use super::files::StampedFile;
use super::record::{OutputRecord, Record};
use super::scan::GroupScan;
use crate::job::Conversion;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use tensorferry::engine::context::session::Session;

/// What the journals of a manifest know.
#[derive(Debug, Default)]
pub(crate) struct History {
    outputs: HashMap<String, OutputHistory>,
    scans: HashMap<String, GroupScan>,
    /// Lines that were skipped.
    pub(super) damaged: usize,
}

/// What the journals know of one output.
#[derive(Debug, Clone, Default)]
pub(crate) struct OutputHistory {
    /// The last commit, whether it happened or not.
    pub(crate) commit: Option<Commit>,
    /// What the last run made visible before its commit.
    visible: Vec<StampedFile>,
    /// Why the last run failed, if it did.
    pub(crate) failure: Option<String>,
    /// Every file that was ever written for it and became visible.
    pub(crate) owned: HashSet<PathBuf>,
}

/// A commit that was begun.
#[derive(Debug, Clone)]
pub(crate) struct Commit {
    pub(crate) at: String,
    pub(crate) conversion: Conversion,
    pub(crate) made: OutputRecord,
    /// Whether it is known to have ended.
    pub(crate) done: bool,
}

impl OutputHistory {
    /// The files that are there because of this output: those of commits that are known to have ended, and
    /// of the last one whatever has become visible.
    pub(crate) fn visible_files(&self, session: &Session) -> Vec<PathBuf> {
        let last = self.commit.iter().filter(|commit| !commit.done).flat_map(|commit| &commit.made.outputs);
        let last = last.chain(&self.visible);
        let visible = last.filter(|file| file.check_output(session).is_ok()).map(|file| file.path.clone());
        self.owned.iter().cloned().chain(visible).collect()
    }
}

impl History {
    pub(crate) fn of(&self, output: &str) -> Option<&OutputHistory> {
        self.outputs.get(output)
    }

    pub(crate) fn outputs(&self) -> impl Iterator<Item = (&str, &OutputHistory)> {
        self.outputs.iter().map(|(output, known)| (output.as_str(), known))
    }

    /// The last scan of some files.
    pub(crate) fn scan(&self, key: &str) -> Option<&GroupScan> {
        self.scans.get(key)
    }

    pub(super) fn add_lines(&mut self, bytes: &[u8]) {
        for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match Record::from_line(line) {
                Some(record) => self.add(record),
                None => self.damaged += 1,
            }
        }
    }

    fn add(&mut self, record: Record) {
        match record {
            Record::Begin { .. } | Record::End { .. } => {}
            Record::Scanned { key, scan } => drop(self.scans.insert(key, *scan)),
            Record::Commit { at, output, conversion, made } => {
                let known = self.outputs.entry(output).or_default();
                if known.commit.as_ref().is_none_or(|old| old.at <= at) {
                    known.failure = None;
                    known.commit = Some(Commit { at, conversion: *conversion, made: *made, done: false });
                }
            }
            Record::Done { output, outputs } => {
                let known = self.outputs.entry(output).or_default();
                known.visible.clear();
                if let Some(commit) = &mut known.commit {
                    let news = |file: &StampedFile| outputs.iter().find(|new| new.path == file.path);
                    for file in &mut commit.made.outputs {
                        *file = news(file).cloned().unwrap_or_else(|| file.clone());
                    }
                    commit.done = true;
                    known.owned.extend(commit.made.outputs.iter().map(|file| file.path.clone()));
                }
            }
            Record::Visible { output, outputs } => self.outputs.entry(output).or_default().visible = outputs,
            Record::Failed { output, reason, .. } => {
                self.outputs.entry(output).or_default().failure = Some(reason);
            }
        }
    }
}
