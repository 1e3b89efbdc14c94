//! A journal is what runs of a manifest have done: a file that is only ever appended to, one record a
//! line, each a JSON object that ends in a checksum of itself.
//!
//! ```text
//! {"event":"begin","run":{...},"sum":"0123456789abcdef"}
//! {"event":"scanned","key":KEY,"scan":{...},"sum":...}                           the schema of a unit's files
//! {"event":"commit","output":OUTPUT,"conversion":{...},"made":{...},"sum":...}    about to become visible
//! {"event":"done","output":OUTPUT,"sum":...}                                      visible
//! {"event":"failed","output":OUTPUT,"reason":...,"sum":...}
//! {"event":"end",...}
//! ```
//!
//! `sum` is the first 8 bytes of BLAKE3, in hex, over the bytes of the line before `,"sum":`. A line
//! whose sum is wrong was torn by a crash or damaged, and is passed over: what it said is found out again.
//!
//! A `commit` record is on the disk before its output can be seen. Records of several jobs that come at
//! the same time share one sync.
//!
//! Runs of shards write journals of their own (`NAME.journal.2-of-8.jsonl`), and each reads those of all.

use super::job::Conversion;
use super::lock;
use super::protocol::Made;
use super::scan::Scan;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use tensorferry::engine::context::fault;
use tensorferry_sdk::{Error, Result};

const SUM: &str = ",\"sum\":\"";
const SUM_DIGITS: usize = 16;

/// A line of the journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Record {
    /// A run began.
    Begin {
        /// When.
        at: String,
        /// The program's version.
        ferry: String,
        /// Which.
        manifest: PathBuf,
        /// Its process.
        process: u32,
    },
    /// A unit of a data set was looked at.
    Scanned {
        /// Its files, and how they are read.
        key: String,
        /// What was found.
        scan: Box<Scan>,
    },
    /// An output is staged, and is about to become visible.
    Commit {
        /// When.
        at: String,
        /// The job's OUTPUT, which is its name here: names may be given anew.
        output: String,
        /// What it is to be.
        conversion: Box<Conversion>,
        /// What it is.
        made: Box<Made>,
    },
    /// It is visible.
    Done {
        /// The job's OUTPUT.
        output: String,
    },
    /// A job failed for good.
    Failed {
        /// When.
        at: String,
        /// The job's OUTPUT.
        output: String,
        /// In one line.
        reason: String,
    },
    /// A run came to its end.
    End {
        /// When.
        at: String,
    },
}

/// What the journals know of one output.
#[derive(Debug, Clone, Default)]
pub struct Known {
    /// The last commit, whether it happened or not.
    pub commit: Option<Commit>,
    /// Why the last run failed, if it did.
    pub failure: Option<String>,
    /// Every file that was ever made for it and became visible.
    pub owned: HashSet<PathBuf>,
}

impl Known {
    /// The files that are there because of this output: those of commits that are known to have ended, and
    /// of the last one whatever has become visible.
    pub(super) fn ours(&self) -> Vec<PathBuf> {
        let last = self.commit.iter().filter(|commit| !commit.done).flat_map(|commit| &commit.made.outputs);
        let visible = last.filter(|placed| placed.check_output().is_ok()).map(|placed| placed.path.clone());
        self.owned.iter().cloned().chain(visible).collect()
    }
}

/// A commit that was begun.
#[derive(Debug, Clone)]
pub struct Commit {
    /// When.
    pub at: String,
    /// What was asked for.
    pub conversion: Conversion,
    /// What was made.
    pub made: Made,
    /// Whether it is known to have ended.
    pub done: bool,
}

/// What the journals of a manifest know.
#[derive(Debug, Default)]
pub struct History {
    outputs: HashMap<String, Known>,
    scans: HashMap<String, Scan>,
    /// Lines that were passed over.
    pub damaged: usize,
}

impl History {
    /// What is known of an output.
    #[must_use]
    pub fn of(&self, output: &str) -> Option<&Known> {
        self.outputs.get(output)
    }

    /// Every output, and what is known of it.
    pub(super) fn outputs(&self) -> impl Iterator<Item = (&str, &Known)> {
        self.outputs.iter().map(|(output, known)| (output.as_str(), known))
    }

    /// What the last look at some files found.
    pub(super) fn scan(&self, key: &str) -> Option<&Scan> {
        self.scans.get(key)
    }

    fn add_lines(&mut self, bytes: &[u8]) {
        for line in bytes.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            match parse(line) {
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
                let is_newer = known.commit.as_ref().is_none_or(|old| old.at <= at);
                if is_newer {
                    known.failure = None;
                    known.commit = Some(Commit { at, conversion: *conversion, made: *made, done: false });
                }
            }
            Record::Done { output } => {
                let known = self.outputs.entry(output).or_default();
                if let Some(commit) = &mut known.commit {
                    commit.done = true;
                    known.owned.extend(commit.made.outputs.iter().map(|placed| placed.path.clone()));
                }
            }
            Record::Failed { output, reason, .. } => {
                self.outputs.entry(output).or_default().failure = Some(reason);
            }
        }
    }
}

fn parse(line: &[u8]) -> Option<Record> {
    let text = std::str::from_utf8(line).ok()?;
    let start = text.len().checked_sub(SUM.len() + SUM_DIGITS + "\"}".len())?;
    let (body, end) = text.split_at_checked(start)?;
    let sum = end.strip_prefix(SUM)?.strip_suffix("\"}")?;
    if sum_of(body) != sum {
        return None;
    }
    serde_json::from_str(text).ok()
}

fn render(record: &Record) -> Result<String> {
    let json = serde_json::to_string(record).map_err(|e| Error::io(format!("the journal: {e}")))?;
    let body = json.strip_suffix('}').unwrap_or(&json);
    Ok(format!("{body}{SUM}{}\"}}\n", sum_of(body)))
}

fn sum_of(body: &str) -> String {
    blake3::hash(body.as_bytes()).to_hex()[..SUM_DIGITS].to_owned()
}

/// A journal that this run appends to. It is locked as long as the run, or any process of a job that it
/// started, is there.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    state: Mutex<State>,
    synced: Condvar,
    _shared: Option<File>,
}

#[derive(Debug, Default)]
struct State {
    written: u64,
    synced: u64,
    syncing: bool,
    failed: Option<Error>,
}

impl Journal {
    /// Where the journal of a manifest is, and of a shard of its jobs.
    #[must_use]
    pub fn beside(manifest: &Path) -> PathBuf {
        manifest.with_extension("journal.jsonl")
    }

    /// Locks a manifest's journal and reads what is known. `part` is the shard's word, `2-of-8`.
    ///
    /// # Errors
    /// Transient, if another run has it; i/o.
    pub fn open(base: &Path, part: Option<&str>) -> Result<(Self, History)> {
        let path = part.map_or_else(|| base.to_owned(), |part| of_part(base, part));
        let failed =
            |e: std::io::Error| Error::from(e).context("the journal").file(path.display().to_string());
        let open = |path: &Path| OpenOptions::new().read(true).append(true).create(true).open(path);
        // Shards share the manifest's own journal and exclude a run of all jobs.
        let shared = match part {
            Some(_) => Some(lock::take(open(base).map_err(failed)?, base, lock::Kind::Shared)?),
            None => None,
        };
        let file = lock::take(open(&path).map_err(failed)?, &path, lock::Kind::Own)?;
        let mut history = History::default();
        let mut paths = siblings(base);
        paths.push(base.to_owned());
        paths.iter().filter(|other| **other != path).for_each(|other| {
            history.add_lines(&std::fs::read(other).unwrap_or_default());
        });
        let mut bytes = Vec::new();
        (&file).seek(SeekFrom::Start(0)).map_err(failed)?;
        (&file).read_to_end(&mut bytes).map_err(failed)?;
        history.add_lines(&bytes);
        if bytes.last().is_some_and(|&last| last != b'\n') {
            // What a crash has torn stays a line of its own.
            (&file).write_all(b"\n").map_err(failed)?;
        }
        if bytes.is_empty() {
            tensorferry::engine::publish::disk::sync(
                path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new(".")),
            )
            .map_err(failed)?;
        }
        let journal = Self { path, file, state: Mutex::default(), synced: Condvar::new(), _shared: shared };
        Ok((journal, history))
    }

    /// Reads what is known, without a lock: for those who change nothing.
    #[must_use]
    pub fn read(base: &Path) -> History {
        let mut history = History::default();
        let mut paths = siblings(base);
        paths.push(base.to_owned());
        paths.iter().for_each(|path| history.add_lines(&std::fs::read(path).unwrap_or_default()));
        history
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends, and comes back when the record is on the disk.
    ///
    /// # Errors
    /// I/o. Once a record could not be written, no other is.
    pub fn append_synced(&self, record: &Record) -> Result<()> {
        let ticket = self.append(record)?;
        self.sync_to(ticket)
    }

    /// Appends. A later sync brings it to the disk.
    ///
    /// # Errors
    /// As [`append_synced`](Self::append_synced).
    pub fn append(&self, record: &Record) -> Result<u64> {
        let line = render(record)?;
        let mut state = self.state();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        if let Err(error) = (&self.file).write_all(line.as_bytes()) {
            let error = self.failed(error);
            state.failed = Some(error.clone());
            return Err(error);
        }
        state.written += 1;
        Ok(state.written)
    }

    /// Brings everything that was appended to the disk.
    ///
    /// # Errors
    /// I/o.
    pub fn sync(&self) -> Result<()> {
        let written = self.state().written;
        self.sync_to(written)
    }

    /// One of those who wait syncs for all that have come so far.
    fn sync_to(&self, ticket: u64) -> Result<()> {
        let mut state = self.state();
        while state.synced < ticket {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if state.syncing {
                state = self.synced.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.syncing = true;
            let written = state.written;
            drop(state);
            let synced = self.file.sync_data();
            state = self.state();
            state.syncing = false;
            match synced {
                Ok(()) => state.synced = written,
                // After a sync that failed, nobody knows what is on the disk.
                Err(error) => state.failed = Some(self.failed(error)),
            }
            self.synced.notify_all();
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[expect(clippy::needless_pass_by_value, reason = "what map_err gives")]
    fn failed(&self, error: std::io::Error) -> Error {
        // Not a passing fault: the run cannot go on without its journal.
        Error::io(format!("cannot write the journal: {error}")).file(self.path.display().to_string())
    }

    /// Appends what was committed.
    ///
    /// # Errors
    /// I/o.
    pub(super) fn done(&self, output: &str) -> Result<()> {
        fault::reach("journal-done")?;
        self.append(&Record::Done { output: output.to_owned() })?;
        fault::reach("journal-done-written")
    }
}

fn of_part(base: &Path, part: &str) -> PathBuf {
    let name = base.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(".jsonl").unwrap_or(&name);
    base.with_file_name(format!("{stem}.{part}.jsonl"))
}

/// The journals of shards beside a manifest's own.
fn siblings(base: &Path) -> Vec<PathBuf> {
    let name = base.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let stem = format!("{}.", name.strip_suffix(".jsonl").unwrap_or(&name));
    let folder = base.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_part = |other: &str| {
        let middle = other.strip_prefix(&stem).and_then(|rest| rest.strip_suffix(".jsonl"));
        middle.and_then(|part| part.split_once("-of-")).is_some_and(|(i, n)| {
            [i, n].iter().all(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
        })
    };
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .filter(|entry| entry.file_name().to_str().is_some_and(is_part))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn failed(output: &str) -> Record {
        Record::Failed { at: "2026".to_owned(), output: output.to_owned(), reason: "\"odd\"\n".to_owned() }
    }

    #[test]
    fn a_torn_or_damaged_line_is_passed_over_and_nothing_else() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.journal.jsonl");
        let (journal, _) = Journal::open(&path, None).unwrap();
        for output in ["one", "two", "three"] {
            journal.append_synced(&failed(output)).unwrap();
        }
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        let last = whole[..whole.len() - 1].iter().rposition(|&b| b == b'\n').unwrap() + 1;
        for cut in last + 1..whole.len() - 1 {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (journal, history) = Journal::open(&path, None).unwrap();
            assert_eq!(history.damaged, 1, "{cut}");
            assert!(history.of("two").is_some() && history.of("three").is_none());
            journal.append_synced(&failed("four")).unwrap();
            drop(journal);
            let history = Journal::read(&path);
            assert!(history.of("four").is_some() && history.damaged == 1);
        }
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        std::fs::write(&path, flipped).unwrap();
        let history = Journal::read(&path);
        assert!(history.damaged == 1 && history.of("one").is_some() && history.of("three").is_some());
    }

    #[test]
    fn one_run_at_a_time_and_shards_beside_each_other() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a.journal.jsonl");
        let all = Journal::open(&path, None).unwrap();
        assert!(Journal::open(&path, None).is_err());
        assert!(Journal::open(&path, Some("1-of-2")).is_err());
        drop(all);
        let (one, _) = Journal::open(&path, Some("1-of-2")).unwrap();
        let _two = Journal::open(&path, Some("2-of-2")).unwrap();
        assert!(Journal::open(&path, Some("1-of-2")).is_err());
        assert!(Journal::open(&path, None).is_err());
        one.append_synced(&failed("one")).unwrap();
        assert!(Journal::read(&path).of("one").is_some());
    }
}
