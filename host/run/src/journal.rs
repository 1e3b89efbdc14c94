//! The journal of a manifest's runs: an append-only file with one record per line.
//!
//! Each line is a JSON object that ends in a checksum of itself:
//!
//! ```text
//! {"event":"begin","run":{...},"sum":"0123456789abcdef"}
//! {"event":"scanned","key":KEY,"scan":{...},"sum":...}                           the schema of a file group
//! {"event":"commit","output":OUTPUT,"request":{...},"made":{...},"sum":...}    about to become visible
//! {"event":"done","output":OUTPUT,"sum":...}                                      visible; of a planned job, with its key
//! {"event":"failed","output":OUTPUT,"reason":...,"sum":...}
//! {"event":"end",...}
//! ```
//!
//! `sum` contains the first 8 bytes, in hex, of the BLAKE3 hash of all bytes before `,"sum":` in
//! the line. A line with a wrong checksum is damaged or was cut off by a crash. Such a line is
//! skipped, and its content is determined again.
//!
//! A `commit` record is synced to the disk before the output becomes visible. If records of several
//! jobs arrive at the same time, a single sync covers all of them.
//!
//! Each run of a shard writes its own journal (`NAME.journal.2-of-8.jsonl`) and reads the journals
//! of all shards. A worker of a plan writes one journal for each piece that it runs, into the
//! piece's folder. It reads only the other journals in that folder. No process appends to a journal
//! of another process, and a worker does not lock its journals.

mod files;
mod history;
mod lock;
mod log;
mod record;
mod scan;

pub(crate) use files::{StampedFile, list_names, names_below, output_identity};
pub(crate) use history::{Commit, History, OutputHistory};
pub(crate) use record::{OutputRecord, Record, this_host};
pub(crate) use scan::GroupScan;

use crate::plan_folder::PlanFolder;
use log::Log;
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use tensorferry::Session;
use tensorferry_core::context::{fault, regular_file};
use tensorferry_publish::disk;
use tensorferry_sdk::{Error, Result};

/// The journal to which this run appends. It remains locked until the run, and all job processes
/// that the run started, have ended.
pub(crate) struct Journal {
    path: PathBuf,
    log: Log,
    /// The first line of a piece's journal. Writing the first record creates the file with this
    /// line.
    first: Option<String>,
    state: Mutex<SyncState>,
    synced: Condvar,
    _shared: Option<File>,
}

/// The number of records that have been appended, and the number of those that have been synced to
/// the disk.
#[derive(Debug, Default)]
struct SyncState {
    written: u64,
    synced: u64,
    syncing: bool,
    failed: Option<Error>,
}

impl Journal {
    /// Locks a manifest's journal and reads it. If the run is a shard, `part` is the name of the
    /// shard, such as `2-of-8`.
    pub(crate) fn open(base: &Path, part: Option<&str>) -> Result<(Self, History)> {
        let path = part.map_or_else(|| base.to_owned(), |part| of_part(base, part));
        let failed =
            |e: std::io::Error| Error::from(e).context("the journal").file(path.display().to_string());
        let open = |path: &Path| {
            // If the path were a link, the journal would be written elsewhere. If it were a pipe,
            // opening it would block.
            let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let mut options = OpenOptions::new();
            options.read(true).append(true).create(true).custom_flags(flags.bits().cast_signed());
            let file = options.open(path)?;
            match file.metadata()?.is_file() {
                true => Ok(file),
                false => Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "not a regular file")),
            }
        };
        // Each shard holds a shared lock on the manifest's journal, so that a run of all jobs
        // cannot start.
        let shared = match part {
            Some(_) => Some(lock::take(open(base).map_err(failed)?, base, lock::LockMode::Shared)?),
            None => None,
        };
        let file = lock::take(open(&path).map_err(failed)?, &path, lock::LockMode::Exclusive)?;
        let mut bytes = Vec::new();
        (&file).seek(SeekFrom::Start(0)).map_err(failed)?;
        (&file).read_to_end(&mut bytes).map_err(failed)?;
        let mut history = History::of_lines(&bytes);
        for other in all_of(base).iter().filter(|other| **other != path) {
            history.merge(History::of_lines(&read_whole(other)));
        }
        if bytes.last().is_some_and(|&last| last != b'\n') {
            // If a crash has cut off the last line, new records start on a new line.
            (&file).write_all(b"\n").map_err(failed)?;
        }
        if bytes.is_empty() {
            disk::sync(folder_of(&path)).map_err(failed)?;
        }
        Ok((Self::new(path, Log::of_file(file), None, shared), history))
    }

    /// Opens a worker's journal for a piece of a plan. The journal is in the piece's folder. Also
    /// reads the journals that already exist in this folder. The file is created when the first
    /// record is written, and starts with the line `first`.
    pub(crate) fn of_piece(
        folder: &PlanFolder,
        worker: &str,
        first: &Record,
        session: &Session,
    ) -> Result<(Self, History)> {
        let history = Self::read_piece(folder, None, session)?;
        let path = PathBuf::from(folder.shown(worker));
        let log = Log::of_piece(folder.clone(), worker);
        Ok((Self::new(path, log, Some(first.to_line()?), None), history))
    }

    /// Reads all journals of a piece except the journal `without`.
    pub(crate) fn read_piece(
        folder: &PlanFolder,
        without: Option<&str>,
        session: &Session,
    ) -> Result<History> {
        let mut journals: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for name in folder.names(session)? {
            if let Some(journal) = log::journal_of(&name).filter(|journal| Some(*journal) != without) {
                let lines = folder.read(&name).map_err(|error| error.context("cannot read the journal"))?;
                journals.entry(journal.to_owned()).or_default().extend(lines.unwrap_or_default());
            }
        }
        let mut history = History::default();
        journals.values().for_each(|lines| history.merge(History::of_lines(lines)));
        Ok(history)
    }

    fn new(path: PathBuf, log: Log, first: Option<String>, shared: Option<File>) -> Self {
        Self { path, log, first, state: Mutex::default(), synced: Condvar::new(), _shared: shared }
    }

    /// Reads the journal without locking it. Commands that do not change anything use this
    /// function.
    pub(crate) fn read(base: &Path) -> History {
        let mut history = History::default();
        for path in all_of(base) {
            history.merge(History::of_lines(&read_whole(&path)));
        }
        history
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a record, and waits until the record has been synced to the disk.
    pub(crate) fn append_synced(&self, record: &Record) -> Result<()> {
        let ticket = self.append(record)?;
        self.sync_to(ticket)
    }

    /// Appends a record without syncing it to the disk. Returns the number of records that have
    /// been appended so far.
    pub(crate) fn append(&self, record: &Record) -> Result<u64> {
        let line = record.to_line()?;
        let mut state = self.state();
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        if let Err(error) = self.log.append(self.first.as_deref(), &line) {
            return Err(state.failed.insert(self.failed(&error)).clone());
        }
        state.written += 1;
        Ok(state.written)
    }

    /// Records that an output is visible. `outputs` are the output's objects in a store, with their
    /// identities.
    pub(crate) fn append_done(
        &self,
        output: &str,
        key: Option<String>,
        outputs: Vec<StampedFile>,
    ) -> Result<()> {
        fault::reach("journal-done")?;
        self.append(&Record::Done { output: output.to_owned(), key, outputs })?;
        fault::reach("journal-done-written")
    }

    /// Returns whether no record has been written to the journal.
    pub(crate) fn is_unused(&self) -> bool {
        self.log.is_unused()
    }

    /// Makes the journal refuse further records, because a record could not be written.
    pub(crate) fn give_up(&self, error: Error) -> Error {
        self.state().failed.get_or_insert(error).clone()
    }

    /// Returns whether a record could not be written. In this case, no further output may become
    /// visible.
    pub(crate) fn has_failed(&self) -> bool {
        self.state().failed.is_some()
    }

    /// Syncs all appended records to the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        let written = self.state().written;
        self.sync_to(written)
    }

    /// Syncs at least the first `ticket` records. If several threads wait, one of them syncs all
    /// records that have arrived so far.
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
            let synced = self.log.sync();
            state = self.state();
            state.syncing = false;
            match synced {
                Ok(()) => state.synced = written,
                // If a sync fails, it is unknown which records are on the disk.
                Err(error) => state.failed = Some(self.failed(&error)),
            }
            self.synced.notify_all();
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, error: &Error) -> Error {
        // This is not a temporary failure, because the run cannot continue without its journal.
        Error::io(format!("cannot write the journal: {error}")).file(self.path.display().to_string())
    }
}

/// Returns the `NAME` of `NAME.journal.jsonl`. `NAME` is also the prefix of the files next to the
/// journal.
pub(crate) fn stem(base: &Path) -> String {
    let name = without_ending(base);
    name.strip_suffix(".journal").unwrap_or(&name).to_owned()
}

fn without_ending(base: &Path) -> String {
    let name = base.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(".jsonl").unwrap_or(&name).to_owned()
}

fn of_part(base: &Path, part: &str) -> PathBuf {
    base.with_file_name(format!("{}.{part}.jsonl", without_ending(base)))
}

fn folder_of(base: &Path) -> &Path {
    base.parent().filter(|path| !path.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Returns the paths of the journals of a manifest and its shards.
fn all_of(base: &Path) -> Vec<PathBuf> {
    let stem = format!("{}.", without_ending(base));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_part = |other: &str| {
        let part = other.strip_prefix(&stem).and_then(|rest| rest.strip_suffix(".jsonl"));
        part.and_then(|part| part.split_once("-of-")).is_some_and(|(i, n)| is_number(i) && is_number(n))
    };
    let entries = std::fs::read_dir(folder_of(base)).into_iter().flatten().flatten();
    let parts = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_part));
    let mut found: Vec<PathBuf> = parts.map(|entry| entry.path()).collect();
    found.sort();
    found.push(base.to_owned());
    found
}

/// Reads the journal of another run. Returns no bytes if the journal cannot be read.
fn read_whole(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = regular_file::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
    read.map_or_else(|_| Vec::new(), |_| bytes)
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
