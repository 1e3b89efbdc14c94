//! Performs one task in a worker: a scan of a file group, or a conversion that asks the runner for
//! permission before its commit.

use super::existing_output::{self, ExistingOutput};
use super::pipe::RunnerPipe;
use super::protocol::{CommitReply, WorkerEvent, WorkerTask};
use crate::job::Force;
use crate::journal::{GroupScan, OutputRecord, StampedFile, list_names, output_identity};
use crate::report::{JobState, JobSummary};
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tensorferry::Session;

use tensorferry::formats::holds_records;
use tensorferry::inspect::Account;
use tensorferry::places::{DestinationKind, absolute, is_url};
use tensorferry::request::{ConversionObserver, FileGroup, PreparedCommit};
use tensorferry::rows::{self, schema_file};
use tensorferry::{LossRecord, Registry, Report, UsedFormat};
use tensorferry_core::formats::probe::probe;
use tensorferry_core::read::context::ReadContext;
use tensorferry_core::read::file_group::{accepts_schema, files_alone};
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_publish::disk::USE_FORCE;
use tensorferry_sdk::{Error, ErrorKind, Purpose, Result};

/// Interval at which a job reports how many bytes it has copied.
const TICK: Duration = Duration::from_millis(200);

pub(super) fn perform(task: &WorkerTask, registry: &Registry, pipe: &RunnerPipe) -> Result<WorkerEvent> {
    if let Some(group) = task.job.request.input.file_group.as_ref().filter(|_| task.scan_only) {
        let scan = Box::new(scan_group(task, group, registry)?);
        return Ok(WorkerEvent::Scanned { scan });
    }
    match existing_output::of(task, registry, registry.session())? {
        ExistingOutput::Unknown => convert_input(task, registry, pipe),
        ExistingOutput::Own(files) => {
            let owned = files.iter().map(|file| file.path.clone()).collect();
            let task = WorkerTask { owned, seen: files.clone(), earlier: files, ..task.clone() };
            convert_input(&task, registry, pipe)
        }
        ExistingOutput::UpToDate(made) => {
            let summary = Box::new(made.summary.clone());
            request_permission(pipe, &WorkerEvent::Ready { made })?;
            Ok(WorkerEvent::Done { summary, files: Vec::new(), outputs: Vec::new() })
        }
    }
}

fn convert_input(task: &WorkerTask, registry: &Registry, pipe: &RunnerPipe) -> Result<WorkerEvent> {
    let session = registry.session();
    let force = !task.owned.is_empty() || task.job.policy.force == Force::Always;
    let mut request = task.job.request.clone();
    request.dry_run = task.dry_run;
    request.output.commit.force = force;
    request.output.receipt = request.output.receipt.filter(|_| !task.dry_run);
    request.output.earlier = if force { earlier(task, session) } else { Vec::new() };
    let observer = RunnerObserver {
        task,
        session,
        pipe,
        bytes_in: AtomicU64::new(0),
        refused: AtomicBool::new(false),
        objects: Mutex::default(),
    };
    let is_over = AtomicBool::new(false);
    let report = std::thread::scope(|scope| {
        let reporter = scope.spawn(|| observer.report_bytes(session, &is_over));
        let report = registry.convert_as(&request, &observer);
        is_over.store(true, Ordering::Relaxed);
        reporter.thread().unpark();
        report
    });
    if let Some(failure) = task.refused.as_ref().filter(|_| observer.refused.load(Ordering::Relaxed)) {
        return Ok(WorkerEvent::Failed { failure: failure.clone() });
    }
    let report = report.map_err(|error| with_manifest_hint(error, task.job.policy.force))?;
    let bytes_in = observer.bytes_in.load(Ordering::Relaxed);
    let summary = Box::new(JobSummary { bytes_in, ..summary(task, &report) });
    let objects = observer.objects.into_inner().unwrap_or_else(PoisonError::into_inner);
    let outputs = objects.iter().map(|file| file.seen(session)).collect();
    Ok(WorkerEvent::Done { summary, files: report.files, outputs })
}

/// Returns the files that earlier runs wrote. An unchanged file is returned with its current
/// identity.
fn earlier(task: &WorkerTask, session: &Session) -> Vec<(PathBuf, FileIdentity)> {
    let mut files: BTreeMap<&Path, FileIdentity> = BTreeMap::new();
    for file in &task.earlier {
        // Objects in a store are not examined here, because such a check is rarely necessary. For
        // objects, the recorded identity is returned.
        if file.path.to_str().is_some_and(is_url) {
            files.insert(&file.path, file.identity);
        } else if file.check_output(session).is_ok() {
            files.insert(&file.path, file.seen(session).identity);
        } else {
            files.entry(&file.path).or_insert(file.identity);
        }
    }
    files.into_iter().map(|(path, identity)| (path.to_owned(), identity)).collect()
}

/// Sends an event that asks the runner for permission, and waits for the reply.
fn request_permission(pipe: &RunnerPipe, event: &WorkerEvent) -> Result<()> {
    pipe.send(event)?;
    match pipe.receive::<CommitReply>()? {
        Some(CommitReply::Commit) => Ok(()),
        Some(CommitReply::Stop) | None => {
            Err(Error::cancelled("the runner stopped the job before its commit"))
        }
    }
}

/// If an error reports that a file must not be overwritten, replaces the error's hint with a hint
/// for manifests.
fn with_manifest_hint(error: Error, force: Force) -> Error {
    let path = error.message().strip_suffix(USE_FORCE).filter(|_| error.kind() == ErrorKind::Usage);
    let (what, hint) = existing_output_hint(force);
    path.map(|path| Error::usage(format!("{path} {what}")).hint(hint)).unwrap_or(error)
}

/// Returns the message and the hint for an existing output that must not be replaced.
fn existing_output_hint(force: Force) -> (&'static str, &'static str) {
    match force {
        Force::Never => ("exists", "move it, or set force = \"own\" or \"always\""),
        Force::Own | Force::Always => (
            "exists, and neither the journal nor a receipt shows that a run has written it",
            "move it, or set force = \"always\"",
        ),
    }
}

fn scan_group(task: &WorkerTask, group: &FileGroup, registry: &Registry) -> Result<GroupScan> {
    let session = registry.session();
    let input = &task.job.request.input;
    let source = group.source(session)?;
    let format = probe(registry.as_ref(), &source, input.format.as_deref(), &**session)?;
    if !holds_records(&format.description) {
        let error =
            Error::unsupported("a dataset consists of records, but the file does not contain records");
        return Err(error.file(&group.files[0]).found(&format.description.id));
    }
    let given = &input.options;
    let context = ReadContext::new(session, Purpose::SHOW);
    let rows = rows::open(&source, format, &files_alone(format, given), &context)?;
    let schema = schema_file(&rows.set.schema());
    let stamped = |(path, identity): (PathBuf, FileIdentity)| StampedFile { path, identity };
    let read = rows.source.stamped().map(|(path, identity)| stamped((path.to_owned(), identity)));
    let inputs = read.chain(context.additional_files().into_iter().map(stamped)).collect();
    rows.close()?;
    context.check_additional_inputs()?;
    Ok(GroupScan {
        reader: UsedFormat::of(format),
        inputs,
        schema,
        takes_schema: accepts_schema(format, given),
    })
}

fn summary(task: &WorkerTask, report: &Report) -> JobSummary {
    JobSummary {
        state: JobState::Done,
        name: task.job.name.clone(),
        input: task.job.input().to_owned(),
        output: report.output.display().to_string(),
        from: report.readers.first().map(|used| used.id.clone()),
        to: Some(report.format.clone()),
        bytes_out: report.bytes,
        tensors: (!report.holds_records).then_some(report.tensors),
        records: report.records,
        account: report.account.as_ref().map(Account::record),
        losses: report.losses.iter().map(|loss| LossRecord::of(loss).into_owned()).collect(),
        notes: report.notes.clone(),
        verified: report.verified,
        receipt: report.receipt.as_ref().map(|path| path.display().to_string()),
        ..JobSummary::default()
    }
}

/// Reports a conversion's progress to the runner, and asks the runner before the commit.
struct RunnerObserver<'a> {
    task: &'a WorkerTask,
    session: &'a Session,
    pipe: &'a RunnerPipe,
    bytes_in: AtomicU64,
    /// Whether this observer has stopped the conversion because the task must not produce an
    /// output.
    refused: AtomicBool,
    /// The output objects in a store, with the identities that the store assigned when they became
    /// visible.
    objects: Mutex<Vec<StampedFile>>,
}

impl RunnerObserver<'_> {
    fn objects(&self) -> MutexGuard<'_, Vec<StampedFile>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an error if the task must not produce an output.
    fn check_refused(&self) -> Result<()> {
        match self.task.refused {
            None => Ok(()),
            Some(_) => {
                self.refused.store(true, Ordering::Relaxed);
                Err(Error::cancelled("refused"))
            }
        }
    }

    fn report_bytes(&self, session: &Session, is_over: &AtomicBool) {
        let (mut last_moved, mut last_read) = (0, (0, 0));
        while !is_over.load(Ordering::Relaxed) {
            std::thread::park_timeout(TICK);
            let (moved, read) = (session.moved.load(Ordering::Relaxed), session.call());
            let mut news = Vec::new();
            if read != last_read {
                news.push(WorkerEvent::Reads { bytes: read.0, of: read.1 });
            }
            if moved != last_moved {
                news.push(WorkerEvent::Moved { bytes: moved });
            }
            // Sending fails if the runner has ended. In this case, the system also ends this
            // process.
            let is_gone = |event: &WorkerEvent| self.pipe.send(event).is_err();
            if !is_over.load(Ordering::Relaxed) && news.iter().any(is_gone) {
                break;
            }
            (last_moved, last_read) = (moved, read);
        }
    }
}

impl ConversionObserver for RunnerObserver<'_> {
    fn before_copy(&self, bytes: u64) {
        let _ = self.pipe.send(&WorkerEvent::Began { bytes });
    }

    fn before_commit(&self, ready: &PreparedCommit<'_>) -> Result<()> {
        self.check_refused()?;
        let made = output_record(self.task, ready, &self.objects(), self.session)?;
        self.bytes_in.store(made.summary.bytes_in, Ordering::Relaxed);
        let objects = made.outputs.iter().filter(|file| file.identity.is_of_len_alone());
        *self.objects() = objects.cloned().collect();
        request_permission(self.pipe, &WorkerEvent::Ready { made: Box::new(made) })
    }

    fn before_visible(&self, objects: Vec<(PathBuf, FileIdentity)>) -> Result<()> {
        self.check_refused()?;
        let outputs = stamped(&objects)?;
        if self.task.job.policy.force == Force::Own {
            check_owned(self.task, &outputs, self.session)?;
        }
        self.objects().clone_from(&outputs);
        request_permission(self.pipe, &WorkerEvent::Visible { outputs })
    }
}

fn stamped(list: &[(PathBuf, FileIdentity)]) -> Result<Vec<StampedFile>> {
    let file = |path, identity| Ok(StampedFile { path: absolute(path)?, identity });
    list.iter().map(|(path, identity)| file(path, *identity)).collect()
}

/// Creates the record of an output. `visible` contains the output files that are already visible.
fn output_record(
    task: &WorkerTask,
    ready: &PreparedCommit<'_>,
    visible: &[StampedFile],
    session: &Session,
) -> Result<OutputRecord> {
    let mut inputs = stamped(&ready.inputs)?;
    inputs.sort_by(|a, b| a.path.cmp(&b.path));
    inputs.dedup();
    let has_changed = |was: &&StampedFile| inputs.iter().any(|now| now.path == was.path && now != *was);
    if let Some(was) = task.scanned.iter().find(has_changed) {
        return Err(Error::transient("the file has changed since the dataset's schema was determined")
            .file(was.path.display().to_string()));
    }
    // The schema file was written by the host, so it is not recorded as an input. A different
    // schema would have a different file name.
    let schema = task.job.request.input.file_group.as_ref().and_then(|group| group.schema.as_ref());
    inputs.retain(|file| Some(&file.path) != schema);
    let outputs = stamped(&ready.outputs)?;
    if task.job.policy.force == Force::Own {
        let is_new = |file: &&StampedFile| !visible.iter().any(|own| own.path == file.path);
        check_owned(task, &outputs.iter().filter(is_new).cloned().collect::<Vec<_>>(), session)?;
    }
    let without: HashSet<&Path> = outputs.iter().map(|file| &*file.path).collect();
    let bytes = |files: &[StampedFile]| files.iter().map(|file| file.identity.len).sum();
    let (bytes_in, bytes_out) = (bytes(&inputs), bytes(&outputs));
    Ok(OutputRecord {
        folder: ready.destination.folder.clone(),
        name: match &ready.destination.kind {
            DestinationKind::Beside { name } => Some(name.clone()),
            DestinationKind::Folder => None,
        },
        readers: ready.report.readers.clone(),
        writer: ready.writer.clone(),
        listing: list_names(&task.job.request.input.path, &without, session),
        inputs,
        outputs,
        summary: JobSummary { bytes_in, bytes_out, ..summary(task, ready.report) },
    })
}

/// Checks that an earlier run wrote every file that will be replaced.
fn check_owned(task: &WorkerTask, outputs: &[StampedFile], session: &Session) -> Result<()> {
    let overtaken = |file: &&StampedFile| {
        let seen = task.seen.iter().find(|seen| seen.path == file.path);
        seen.is_some_and(|seen| seen.check_output(session).is_err())
    };
    if let Some(file) = outputs.iter().find(overtaken) {
        return Err(
            Error::transient("another worker has replaced the file").file(file.path.display().to_string())
        );
    }
    let is_there =
        |file: &StampedFile| output_identity(&file.path, session).is_ok_and(|found| found.is_some());
    let is_foreign = |file: &&StampedFile| !task.owned.contains(&file.path) && is_there(file);
    match outputs.iter().find(is_foreign) {
        None => Ok(()),
        Some(file) => {
            let (what, hint) = existing_output_hint(Force::Own);
            Err(Error::usage(what).file(file.path.display().to_string()).hint(hint))
        }
    }
}
