//! Groups the jobs of a plan into pieces, and writes the files that contain the pieces.

use super::{HEADER, PlanHeader, VERSION};
use crate::budget::Budget;
use crate::job::{Job, PlannedWork};
use crate::journal::StampedFile;
use crate::plan_folder::PlanFolder;
use crate::platform::sync_files;
use crate::report::JobFailure;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tensorferry::Registry;
use tensorferry_convert::receipt::now;
use tensorferry_sdk::{Error, Result, Side};

pub(super) const FOLDER: &str = "pieces";
/// Number of inputs that are examined in parallel.
const BATCH: usize = 1024;
/// Name prefix of plans that are not complete yet.
const UNFINISHED: &str = ".ferry-plan-";
/// Minimum age of an unfinished plan before it is removed. A younger plan may not be locked yet.
const MIN_AGE: Duration = Duration::from_secs(60);

/// A line in the file of a piece. It contains a job and all data that a worker needs to run the
/// job.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PlannedJob {
    #[serde(flatten)]
    pub(crate) work: PlannedWork,
    pub(crate) job: Job,
    /// The reason why the job cannot run. Set if the schema of the job's dataset cannot be
    /// determined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<JobFailure>,
    /// The reason why the job must not produce an output. This reason is reported unless the job
    /// fails with a different error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refused: Option<JobFailure>,
    /// The state of the files in the job's file group when the schema was determined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) scanned: Vec<StampedFile>,
}

/// Writes a plan piece by piece into a folder next to the plan's final path. The plan becomes
/// visible when it is complete.
pub(crate) struct PieceWriter<'a> {
    registry: &'a Registry,
    folder: TempDir,
    /// A lock that is held while the plan is being made. The lock shows other processes that the
    /// plan is in progress and not abandoned.
    _lock: Option<File>,
    target: PlanFolder,
    piece_jobs: usize,
    piece_bytes: u64,
    header: PlanHeader,
    /// Jobs whose inputs have not been examined yet.
    waiting: Vec<PlannedJob>,
    /// The lines of the current piece.
    open: Vec<u8>,
    open_jobs: usize,
    open_bytes: u64,
}

impl<'a> PieceWriter<'a> {
    /// Starts a plan at `place`. A piece has at most `piece_jobs` jobs. A piece with more than one
    /// job has at most `piece_bytes` bytes of input.
    pub(crate) fn new(
        registry: &'a Registry,
        place: &Path,
        manifest: &Path,
        (piece_jobs, piece_bytes): (usize, u64),
        memory: u64,
    ) -> Result<Self> {
        let target = PlanFolder::open(place, registry.session())?;
        let is_there = match &target {
            PlanFolder::Local(folder) => folder.symlink_metadata().is_ok(),
            PlanFolder::Remote(..) => target.read(HEADER)?.is_some(),
        };
        if is_there {
            let error = Error::usage("the plan already exists").file(target.shown(""));
            return Err(error.hint("remove it, or pass a different path"));
        }
        let temporary = std::env::temp_dir();
        // The unfinished plan is in the same parent folder as the final path, so that it can be
        // renamed.
        let above = match &target {
            PlanFolder::Local(folder) => folder.parent().unwrap_or(Path::new("/")),
            PlanFolder::Remote(..) => &temporary,
        };
        let failed = |e: std::io::Error| {
            Error::from(e).context("cannot make a plan").file(above.display().to_string())
        };
        remove_left_behind(above);
        let folder = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(above).map_err(failed)?;
        let lock = try_lock(folder.path());
        fs::create_dir(folder.path().join(FOLDER)).map_err(failed)?;
        let header = PlanHeader {
            plan: VERSION,
            ferry: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: std::path::absolute(manifest).map_err(failed)?,
            made: now(),
            pieces: 0,
            jobs: 0,
            bytes: 0,
            memory,
        };
        let (waiting, open) = (Vec::new(), Vec::new());
        Ok(Self {
            registry,
            folder,
            _lock: lock,
            target,
            piece_jobs: piece_jobs.max(1),
            piece_bytes,
            header,
            waiting,
            open,
            open_jobs: 0,
            open_bytes: 0,
        })
    }

    /// Sets the memory of a worker. The value applies to the jobs that are added later.
    pub(crate) fn set_memory(&mut self, memory: u64) {
        self.header.memory = memory;
    }

    /// Adds a job that has no failure and no recorded file states.
    pub(crate) fn add(&mut self, job: Job) -> Result<()> {
        let work = PlannedWork { key: String::new(), bytes: 0, memory: 0 };
        self.add_planned(PlannedJob { work, job, failure: None, refused: None, scanned: Vec::new() })
    }

    /// Adds a job. The field `work` of the job is computed later.
    pub(crate) fn add_planned(&mut self, job: PlannedJob) -> Result<()> {
        self.waiting.push(job);
        if self.waiting.len() < BATCH { Ok(()) } else { self.examine_inputs() }
    }

    /// Examines the inputs of waiting jobs. Many inputs are examined in parallel, because inputs
    /// may be in a store.
    fn examine_inputs(&mut self) -> Result<()> {
        let mut jobs = std::mem::take(&mut self.waiting);
        let (registry, memory) = (self.registry, self.header.memory);
        jobs.par_iter_mut().for_each(|planned| planned.work = work_of(&planned.job, registry, memory));
        jobs.iter().try_for_each(|job| self.place(job))
    }

    fn place(&mut self, job: &PlannedJob) -> Result<()> {
        let bytes = job.work.bytes;
        let is_too_much = self.open_bytes.saturating_add(bytes) > self.piece_bytes;
        if self.open_jobs > 0 && (self.open_jobs >= self.piece_jobs || is_too_much) {
            self.close()?;
        }
        serde_json::to_writer(&mut self.open, job).map_err(|e| Error::io(format!("the plan: {e}")))?;
        self.open.push(b'\n');
        self.open_jobs += 1;
        self.open_bytes += bytes;
        self.header.jobs += 1;
        self.header.bytes += bytes;
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        if self.open_jobs > 0 {
            let path = path(self.folder.path(), self.header.pieces);
            fs::write(&path, &self.open).map_err(at(&path))?;
            self.header.pieces += 1;
        }
        self.open.clear();
        (self.open_jobs, self.open_bytes) = (0, 0);
        Ok(())
    }

    /// Makes the plan visible.
    pub(crate) fn finish(mut self) -> Result<PlanHeader> {
        self.examine_inputs()?;
        self.close()?;
        let mut header = serde_json::to_vec_pretty(&self.header).map_err(|e| Error::io(e.to_string()))?;
        header.push(b'\n');
        let own = self.folder.path();
        let PlanFolder::Local(place) = &self.target else {
            let pieces = self.target.subfolder(FOLDER);
            (0..self.header.pieces).into_par_iter().try_for_each(|number| {
                let path = path(own, number);
                pieces.create(&format!("{}.jsonl", name(number)), &fs::read(&path).map_err(at(&path))?)
            })?;
            self.target.create(HEADER, &header)?;
            return Ok(self.header);
        };
        fs::write(own.join(HEADER), header).map_err(at(own))?;
        for name in ["journal", "leases"] {
            fs::create_dir(own.join(name)).map_err(at(own))?;
        }
        // One sync covers all files of the plan.
        sync_files(own).map_err(at(own))?;
        let permissions = fs::metadata(own.join(FOLDER)).map_err(at(own))?.permissions();
        fs::set_permissions(own, permissions).map_err(at(own))?;
        fs::rename(own, place).map_err(at(place))?;
        Ok(self.header)
    }
}

/// Removes the unfinished plans of killed processes from a folder. Errors are ignored.
fn remove_left_behind(above: &Path) {
    let is_old = |folder: &Path| {
        let modified = fs::symlink_metadata(folder).ok().filter(fs::Metadata::is_dir)?.modified().ok()?;
        modified.elapsed().ok().filter(|age| *age > MIN_AGE)
    };
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let folder = entry.path();
        let is_ours = entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes());
        if is_ours && is_old(&folder).is_some() && try_lock(&folder).is_some() {
            let _ = fs::remove_dir_all(&folder);
        }
    }
}

/// Locks a plan that is being made. Returns `None` if another process holds the lock, or if the
/// file system does not support locks.
fn try_lock(folder: &Path) -> Option<File> {
    let folder = File::open(folder).ok()?;
    folder.try_lock().ok()?;
    Some(folder)
}

/// Returns the path of a piece in a plan's folder.
pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(FOLDER).join(format!("{}.jsonl", name(number)))
}

/// Returns the base name of a piece's files.
pub(super) fn name(number: u64) -> String {
    format!("{number:05}")
}

pub(super) fn read(pieces: &PlanFolder, number: u64) -> Result<Vec<PlannedJob>> {
    let name = format!("{}.jsonl", name(number));
    let shown = pieces.shown(&name);
    let lines =
        pieces.read(&name)?.ok_or_else(|| Error::malformed("a piece of the plan is missing").file(&shown))?;
    let lines = lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).enumerate();
    let job = |(index, line)| {
        serde_json::from_slice(line)
            .map_err(|e| Error::malformed(format!("line {}: {e}", index + 1)).file(&shown))
    };
    lines.map(job).collect()
}

fn work_of(job: &Job, registry: &Registry, memory: u64) -> PlannedWork {
    let stamp = job.input_stamp(registry.session());
    let memory = Budget::planned_share(stamp.bytes, memory);
    let request = job.content_request();
    let revision = |id: &Option<String>, side| {
        let format = registry.format(id.as_deref()?, side).ok()?;
        Some(format.description.output_revision)
    };
    let facts = (
        &request,
        job.request.output.receipt,
        revision(&request.input.format, Side::Reader),
        revision(&request.output.format, Side::Writer),
        env!("CARGO_PKG_VERSION"),
        memory,
        stamp.digest().to_hex().to_string(),
    );
    // The serialized values are only strings and numbers, so serialization cannot fail.
    let key = blake3::hash(&serde_json::to_vec(&facts).unwrap_or_default()).to_hex()[..32].to_owned();
    PlannedWork { key, bytes: stamp.bytes, memory }
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> Error + '_ {
    move |error| Error::from(error).context("the plan").file(path.display().to_string())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn a_plan_that_was_left_behind_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let made = |name: &str, age: u64| {
            let folder = home.path().join(name);
            fs::create_dir_all(folder.join(FOLDER)).unwrap();
            let time = SystemTime::now() - Duration::from_secs(age);
            File::open(&folder).unwrap().set_modified(time).unwrap();
            folder
        };
        let (dead, young) = (made(".ferry-plan-dead", 3600), made(".ferry-plan-young", 0));
        let (alive, other) = (made(".ferry-plan-alive", 3600), made("plan", 3600));
        let lock = try_lock(&alive).unwrap();
        remove_left_behind(home.path());
        assert_eq!([dead, young, alive, other].map(|folder| folder.exists()), [false, true, true, true]);
        drop(lock);
    }
}
