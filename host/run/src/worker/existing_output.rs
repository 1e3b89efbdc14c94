//! Determines from the receipt of an existing output whether a job would write the same output. The
//! receipt is needed if the journal does not contain the output. For example, the journal was lost,
//! a folder was moved, or a different plan of the same manifest wrote the output.
//!
//! Settings and lengths are compared first, because this is quick. Files are read only if the
//! settings and lengths match.

use super::protocol::WorkerTask;
use crate::job::{Force, Job};
use crate::journal::{OutputRecord, StampedFile, list_names, names_below, output_identity};
use crate::report::{JobState, JobSummary};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use tensorferry::places::is_url;
use tensorferry::receipts::Receipt;
use tensorferry::request::Request;
use tensorferry::{Registry, Session, UsedFormat};
use tensorferry_convert::receipt::{self, FileRecord, Files, FormatRecord};
use tensorferry_core::read::folder;
use tensorferry_sdk::{Context, Result, Side, check_name};

/// The relation of an existing output to a job.
pub(super) enum ExistingOutput {
    /// The relation was not determined. Either the receipt is not sufficient to determine the
    /// relation, or the journal already contains the output.
    Unknown,
    /// ferry wrote the output from a different input or with different settings, and the output is
    /// unchanged. The output may be replaced.
    Own(Vec<StampedFile>),
    /// The output is the same as the output that the job would write.
    UpToDate(Box<OutputRecord>),
}

/// Classifies the existing output of a task, using only its receipt.
pub(super) fn of(task: &WorkerTask, registry: &Registry, session: &Session) -> Result<ExistingOutput> {
    let job = &task.job;
    let is_asked = task.owned.is_empty() && !task.dry_run && job.policy.force != Force::Always;
    // In a store, every object would have to be downloaded, so stores are not checked.
    let output = &job.request.output.path;
    let path = receipt::path_for(output);
    if !is_asked || is_url(job.output()) || !path.is_file() {
        return Ok(ExistingOutput::Unknown);
    }
    let Ok(receipt) = Receipt::read(&path, session) else { return Ok(ExistingOutput::Unknown) };
    let folder = path.parent().unwrap_or(Path::new("/"));
    let stamped = |path: PathBuf| {
        let identity = output_identity(&path, session).ok().flatten()?;
        Some(StampedFile { path, identity })
    };
    let outputs = receipt.output.files.iter().map(|file| folder.join(&file.name)).chain([path.clone()]);
    let Some(outputs) = outputs.map(stamped).collect::<Option<Vec<_>>>() else {
        return Ok(ExistingOutput::Unknown);
    };
    if !have_lens(folder, &receipt.output.files) {
        return Ok(ExistingOutput::Unknown);
    }
    let input =
        FoundInput::of(job, &receipt, &outputs, registry, session).filter(|input| input.is_there(&receipt));
    let inputs = input.map(|input| (input.stamped(&receipt, session), input));
    session.check_cancelled()?;
    let inputs = match inputs {
        Some((Some(stamped), input)) if is_as_recorded(&input.folder, &receipt.input.files, session)? => {
            Some(stamped)
        }
        _ => None,
    };
    if inputs.is_none() && job.policy.force == Force::Never {
        return Ok(ExistingOutput::Unknown);
    }
    if !is_as_recorded(folder, &receipt.output.files, session)? {
        return Ok(ExistingOutput::Unknown);
    }
    let made =
        inputs.and_then(|inputs| made(job, &receipt, &path, (inputs, outputs.clone()), registry, session));
    Ok(made.map_or(ExistingOutput::Own(outputs), |made| ExistingOutput::UpToDate(Box::new(made))))
}

/// The current folder of the input that a receipt describes.
struct FoundInput {
    folder: PathBuf,
}

impl FoundInput {
    /// Finds the input that a receipt describes. Returns `None` if the job would read different
    /// files or use different settings.
    fn of(
        job: &Job,
        receipt: &Receipt,
        outputs: &[StampedFile],
        registry: &Registry,
        session: &Session,
    ) -> Option<Self> {
        let input = job.input();
        if is_url(input) || !has_settings(job, receipt, registry) {
            return None;
        }
        // The folder may have been moved, but the input's path relative to the folder has not
        // changed.
        let way = Path::new(&receipt.input.path).strip_prefix(&receipt.input.folder).ok()?;
        let folder = Path::new(input).ancestors().nth(way.components().count())?;
        let found = Self { folder: folder.to_owned() };
        if !Path::new(input).ends_with(way) {
            return None;
        }
        // If the input folder contains new files, these files may belong to the input.
        let without = outputs.iter().map(|file| &*file.path).collect();
        let names = names_below(Path::new(input), &without, session).unwrap_or_default();
        let is_known = |name: &PathBuf| {
            name.to_str().is_some_and(receipt::is_name)
                || receipt.input.files.iter().any(|file| Path::new(&file.name) == name)
        };
        names.iter().all(is_known).then_some(found)
    }

    fn is_there(&self, receipt: &Receipt) -> bool {
        have_lens(&self.folder, &receipt.input.files)
    }

    fn stamped(&self, receipt: &Receipt, session: &Session) -> Option<Vec<StampedFile>> {
        let stamped = |file: &FileRecord| {
            let path = folder::absolute(&self.folder.join(&file.name)).ok()?;
            let identity = folder::identity(&path, session).ok()?;
            Some(StampedFile { path, identity })
        };
        let mut files = receipt.input.files.iter().map(stamped).collect::<Option<Vec<_>>>()?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Some(files)
    }
}

/// Returns whether a job's settings equal the settings in a receipt, as far as the receipt contains
/// them.
fn has_settings(job: &Job, receipt: &Receipt, registry: &Registry) -> bool {
    let Request { input, steps, output, losses, .. } = &job.request;
    let is = |asked: &Option<String>, side, made: &FormatRecord| match asked {
        Some(id) => registry.format(id, side).is_ok_and(|format| format.description.id == made.id),
        None => true,
    };
    // The receipt of a dataset's output does not contain the origin of the schema. No receipt
    // contains the globs that select the sidecar files to copy.
    input.file_group.is_none()
        && input.companions.is_none()
        && receipt.input.additional_inputs.is_empty()
        && (!losses.strict || receipt.losses.is_empty())
        && (!output.verify || receipt.verified.is_some())
        && (&input.options, &output.options) == (&receipt.input.options, &receipt.output.options)
        && (steps, &input.part.to_string()) == (&receipt.steps, &receipt.part)
        && is(&output.format, Side::Writer, &receipt.output.format)
        && readers(receipt).all(|made| is(&input.format, Side::Reader, made))
}

fn readers(receipt: &Receipt) -> impl Iterator<Item = &FormatRecord> {
    let of_records = receipt.records.iter().map(|records| &records.from);
    receipt.models.iter().map(|model| &model.from).chain(of_records)
}

/// Returns the format that a receipt names, if the format's reading or writing behavior has not
/// changed.
fn used(made: &FormatRecord, registry: &Registry) -> Option<UsedFormat> {
    let format = registry.formats().iter().find(|format| format.description.id == made.id)?;
    (format.description.output_revision == made.output_revision).then(|| UsedFormat::of(format))
}

fn have_lens(folder: &Path, files: &[FileRecord]) -> bool {
    files.iter().all(|file| {
        let there = std::fs::metadata(folder.join(&file.name));
        check_name(&file.name).is_ok()
            && there.is_ok_and(|there| there.is_file() && there.len() == file.bytes)
    })
}

/// Returns whether files match their recorded digests. An unreadable file does not match.
fn is_as_recorded(folder: &Path, records: &[FileRecord], session: &Session) -> Result<bool> {
    let Some(first) = records.first() else { return Ok(true) };
    let mut files = Files::default();
    let added = records
        .iter()
        .try_for_each(|record| files.add_path(folder.join(&record.name), record.name.clone(), None));
    let found = added.and_then(|()| files.digest(first.digest.algorithm(), session));
    session.check_cancelled()?;
    Ok(found.is_ok_and(|found| found == records))
}

/// Creates the record that a run would have written for the output.
fn made(
    job: &Job,
    receipt: &Receipt,
    path: &Path,
    (inputs, outputs): (Vec<StampedFile>, Vec<StampedFile>),
    registry: &Registry,
    session: &Session,
) -> Option<OutputRecord> {
    let mut read_as = readers(receipt).map(|made| used(made, registry)).collect::<Option<Vec<_>>>()?;
    read_as.sort();
    read_as.dedup();
    let output = receipt::output_of(path);
    let is_own = path.parent() == Some(&*output);
    let without: HashSet<&Path> = outputs.iter().map(|file| &*file.path).collect();
    let bytes = |files: &[StampedFile]| files.iter().map(|file| file.identity.len).sum();
    let tensors = receipt.models.iter().map(|model| model.tensors.len() as u64).sum();
    let summary = JobSummary {
        state: JobState::Unchanged,
        name: job.name.clone(),
        input: job.input().to_owned(),
        output: job.output().to_owned(),
        from: read_as.first().map(|format| format.id.clone()),
        to: Some(receipt.output.format.id.clone()),
        bytes_in: bytes(&inputs),
        bytes_out: bytes(&outputs),
        tensors: receipt.records.is_none().then_some(tensors),
        records: receipt.records.as_ref().map(|records| records.rows),
        account: receipt.input.account.clone(),
        losses: receipt.losses.clone(),
        verified: receipt.verified,
        receipt: Some(path.display().to_string()),
        ..JobSummary::default()
    };
    Some(OutputRecord {
        folder: path.parent()?.to_owned(),
        name: (!is_own).then(|| output.file_name()?.to_str().map(str::to_owned)).flatten(),
        writer: used(&receipt.output.format, registry)?,
        readers: read_as,
        listing: list_names(&job.request.input.path, &without, session),
        inputs,
        outputs,
        summary,
    })
}
