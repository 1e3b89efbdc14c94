//! Checks an output against its receipt: first the lengths and digests of its files, then each
//! tensor that ferry reads from it. On request, also checks the input files that the output was
//! made from.
//!
//! A receipt is untrusted. If it contains file names that lead out of its folder, it is rejected as
//! unreadable. Values in a receipt are only compared, and never determine the size of an
//! allocation.

use crate::inspect::temporary;
use crate::receipt::digest::hash_path;
use crate::receipt::verdict::MISSING;
use crate::receipt::{
    FileDigest, FileRecord, Files, ModelRecord, Problem, Receipt, RecordsRecord, Subject, TensorRecord,
    Verdict, VerifyResult, from_hex,
};
use crate::record_support::RecordSupport;
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind as Os;
use std::path::{Path, PathBuf};
use tensorferry_core::context::loss::LossRecord;
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::options;
use tensorferry_core::formats::registry::{Formats, RegisteredFormat};
use tensorferry_core::read::context::ReadContext;
use tensorferry_core::read::folder::{is_url, shown};
use tensorferry_core::read::input;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{
    CatalogView, Context, Entry, Error, ErrorKind, LossKind, Purpose, Result, Side, Source, TensorId,
    check_name, hex,
};
use tensorferry_tensors::content::{self, Algorithm, digests};
use tensorferry_tensors::logical::Logical;
use tensorferry_tensors::stored::Stored;

/// How thoroughly an output is checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerifyOptions {
    /// Whether to check only the output's files, without reading the tensors.
    pub quick: bool,
    /// Whether to also check the files that the output was made from.
    pub source: bool,
}

/// Checks outputs against their receipts in parallel, one output per thread. The threads share the
/// memory budget. Calls `each` with every result, in order.
pub fn verify_all(
    receipts: &[PathBuf],
    depth: VerifyOptions,
    registry: &Formats,
    session: &Session,
    records: &dyn RecordSupport,
    mut each: impl FnMut(VerifyResult) -> Result<()>,
) -> Result<()> {
    let share = session.share(session.threads as u64);
    for together in receipts.chunks(session.threads) {
        session.check_cancelled()?;
        let checked: Vec<VerifyResult> =
            together.par_iter().map(|path| verify(path, depth, registry, &share, records)).collect();
        session.check_cancelled()?;
        checked.into_iter().try_for_each(&mut each)?;
    }
    Ok(())
}

/// Checks an output against the receipt at a path.
#[must_use]
pub fn verify(
    path: &Path,
    depth: VerifyOptions,
    registry: &Formats,
    session: &Session,
    records: &dyn RecordSupport,
) -> VerifyResult {
    let mut checked = VerifyResult {
        receipt: path.to_owned(),
        verdict: Verdict::Ok,
        problems: Vec::new(),
        error: None,
        files: 0,
        tensors: 0,
        rows: 0,
        left_out: Vec::new(),
        bytes: 0,
    };
    let looked = checked.look(path, depth, registry, session, records);
    let is_gone = |problem: &Problem| problem.subject != Subject::Tensor && problem.what == MISSING;
    checked.verdict = match &looked {
        _ if checked.problems.iter().any(|problem| !is_gone(problem)) => Verdict::Changed,
        _ if !checked.problems.is_empty() => Verdict::Missing,
        Err(_) => Verdict::Unreadable,
        Ok(()) => Verdict::Ok,
    };
    checked.error = looked.err();
    checked
}

impl VerifyResult {
    /// Checks the output and collects all problems. If this function returns an error, there may be
    /// more problems than it has collected.
    fn look(
        &mut self,
        path: &Path,
        depth: VerifyOptions,
        registry: &Formats,
        session: &Session,
        support: &dyn RecordSupport,
    ) -> Result<()> {
        let receipt = Receipt::read(path, session)?;
        self.bytes = receipt.bytes();
        let folder = path.parent().unwrap_or(Path::new(""));
        let is_whole = self.files(folder, &receipt.output.files, Subject::File, session)?;
        if depth.source {
            self.files(Path::new(&receipt.input.folder), &receipt.input.files, Subject::Source, session)?;
            for input in &receipt.input.additional_inputs {
                self.files(Path::new(&input.folder), &input.files, Subject::Source, session)?;
            }
        }
        if depth.quick {
            return Ok(());
        }
        for model in &receipt.models {
            self.receipt_agrees(model);
            if is_whole {
                let format = reader(registry, &receipt.output.format.id)?;
                self.tensors(folder, format, (model, &receipt.losses), session)?;
            }
        }
        if let Some(records) = &receipt.records {
            let names = receipt.output.files.iter().map(|file| file.name.clone()).collect();
            self.rows_agree(records);
            if is_whole {
                let format = reader(registry, &receipt.output.format.id)?;
                let source = FileSource::below_path(folder, Entry::Folder, session)?.for_checks();
                let source = source.with_files(names);
                let told = options::text_options(&format.description, &receipt.output.options);
                support.verify(self, &source, (records, &receipt.losses), format, &told, session)?;
            }
        }
        Ok(())
    }

    /// Checks that the content digest of all records agrees with the digest that is computed from
    /// the files' digests.
    fn rows_agree(&mut self, records: &RecordsRecord) {
        let of_files =
            records.content_of_files().map_or_else(|| "no digests".to_owned(), |digest| hex(&digest));
        let rows = records.files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.rows));
        if of_files != records.content {
            let problem = Problem::new(Subject::Receipt, "", "its content digest does not match its records");
            self.problems.push(problem.differs(&records.content, of_files));
        }
        if rows != records.rows {
            let problem = Problem::new(Subject::Receipt, "", "its files have a different number of records");
            self.problems.push(problem.differs(records.rows, rows));
        }
    }

    /// Compares files with their records in the receipt. Returns whether all files exist.
    fn files(
        &mut self,
        folder: &Path,
        files: &[FileRecord],
        subject: Subject,
        session: &Session,
    ) -> Result<bool> {
        let compare = |file: &FileRecord| compare_file(folder, file, subject, session);
        let problems = files.par_iter().map(compare).collect::<Result<Vec<_>>>()?;
        self.files += files.len() as u64;
        let problems: Vec<Problem> = problems.into_iter().flatten().collect();
        let is_whole = problems.iter().all(|problem| problem.what != MISSING);
        self.problems.extend(problems);
        Ok(is_whole)
    }

    /// Checks that the model's digest agrees with the digest that is computed from its tensors'
    /// digests.
    fn receipt_agrees(&mut self, model: &ModelRecord) {
        let digests = model.tensors.iter().map(|t| Some((t.name.as_str(), from_hex(&t.content)?)));
        let of_tensors = digests.collect::<Option<Vec<_>>>().map(content::catalog);
        let of_tensors = of_tensors.map_or_else(|| "no digests".to_owned(), |digest| hex(&digest));
        if of_tensors != model.content {
            let problem = Problem::new(
                Subject::Receipt,
                model.folder.as_str(),
                "its content digest does not match its tensors",
            );
            self.problems.push(problem.differs(&model.content, of_tensors));
        }
    }

    fn tensors(
        &mut self,
        folder: &Path,
        format: &RegisteredFormat,
        (model, losses): (&ModelRecord, &[LossRecord<'_>]),
        session: &Session,
    ) -> Result<()> {
        if !model.folder.is_empty() {
            check_name(&model.folder)?;
        }
        let entry = match &model.entry {
            Some(name) => Entry::File(name.clone()),
            None => Entry::Folder,
        };
        let source = FileSource::below_path(&folder.join(&model.folder), entry, session)?.for_checks();
        let found = input::read(&source, format, &[], &ReadContext::new(session, Purpose::SHOW))?;
        {
            let logical = Logical::new(Stored::new(&found, &found.catalog, session, temporary()));
            self.compare_tensors(&logical, model, losses)?;
        }
        found.close()
    }

    fn compare_tensors(
        &mut self,
        logical: &Logical<'_>,
        model: &ModelRecord,
        losses: &[LossRecord<'_>],
    ) -> Result<()> {
        let losses_of = |kind: LossKind| -> HashMap<&str, &LossRecord<'_>> {
            let of_kind = losses.iter().filter(|loss| loss.kind == kind.word());
            of_kind.filter_map(|loss| Some((in_folder(&model.folder, &loss.what)?, loss))).collect()
        };
        let changed = losses_of(LossKind::Attribute);
        // Digests are computed after readers and steps have rounded values. After that, the dtype
        // can change only through losses that the writer reported.
        let mut rounded = losses_of(LossKind::Precision);
        rounded.retain(|_, loss| loss.asked);
        let mut not_compared: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let digests = digests(logical, Algorithm::Blake3)?;
        let mut there: HashMap<&str, TensorId> =
            logical.tensor_ids().map(|id| (logical.tensor(id).name, id)).collect();
        // A format that does not store names returns its only tensor under a different name.
        let is_only = there.len() == 1 && model.tensors.len() == 1;
        for expected in &model.tensors {
            let named = there.remove(expected.name.as_str());
            let Some(id) = named.or_else(|| is_only.then(|| there.drain().next())?.map(|(_, id)| id)) else {
                self.problems.push(Problem::new(Subject::Tensor, &expected.name, MISSING));
                continue;
            };
            let mut found = TensorRecord::of(logical, id, &expected.name, &digests[id.0 as usize])?;
            if found.shape != expected.shape && changed.contains_key(&*expected.name) {
                found.content = hex(&content::reshaped(logical, id, &expected.shape)?);
                found.shape.clone_from(&expected.shape);
            }
            let problem = compare_tensor(expected, &found);
            match rounded.get(&*expected.name).filter(|_| found.dtype != expected.dtype) {
                Some(loss) => not_compared.entry(&loss.why).or_default().push(&expected.name),
                None => {
                    self.problems.extend(problem);
                    self.tensors += 1;
                }
            }
        }
        self.left_out.extend(not_compared.into_iter().map(|(why, names)| match &*names {
            [name] => format!("tensor {name:?}: {why}"),
            names => format!("{} tensors, starting with {:?}: {why}", names.len(), names[0]),
        }));
        let mut unexpected: Vec<&str> = there.into_keys().collect();
        unexpected.sort_unstable();
        let problem = |name| Problem::new(Subject::Tensor, name, "is not in the receipt");
        self.problems.extend(unexpected.into_iter().map(problem));
        Ok(())
    }
}

/// Returns the subject of a loss relative to the model's folder, or `None` if the subject is
/// outside that folder.
fn in_folder<'a>(folder: &str, what: &'a str) -> Option<&'a str> {
    if folder.is_empty() { Some(what) } else { what.strip_prefix(folder)?.strip_prefix('/') }
}

fn reader<'a>(registry: &'a Formats, format: &str) -> Result<&'a RegisteredFormat> {
    registry.format(format, Side::Reader).map_err(|error| {
        // The receipt names the format, not the user, so this is not a usage error.
        Error::new(ErrorKind::Plugin, error.message()).context("no reader for the output is installed")
    })
}

fn compare_file(
    folder: &Path,
    file: &FileRecord,
    subject: Subject,
    session: &Session,
) -> Result<Option<Problem>> {
    check_name(&file.name).map_err(|error| error.context("the receipt names a file outside its folder"))?;
    let problem = |what| Problem::new(subject, &file.name, what);
    let path = folder.join(&file.name);
    let failed = |e: Error| e.file(shown(&path));
    let differs = |found: &FileDigest| match subject {
        // A receipt may name any path as a source. The error must not reveal the digest of a file
        // that is not part of the output.
        Subject::Source => problem("has a different digest"),
        _ => problem("has a different digest").differs(file.digest.text(), found.text()),
    };
    if path.to_str().is_some_and(is_url) {
        let source = match FileSource::open(&path, session) {
            Ok(source) if matches!(source.entry(), Entry::File(_)) => source,
            Err(error) if error.kind() != ErrorKind::Usage => return Err(failed(error)),
            _ => return Ok(Some(problem(MISSING))),
        };
        let mut files = Files::default();
        files.add_source(&source, source.entry().name(), file.name.clone(), None)?;
        let found = files.digest(file.digest.algorithm(), session).map_err(failed)?;
        let [found] = &*found else { return Ok(Some(problem(MISSING))) };
        if found.bytes != file.bytes {
            return Ok(Some(problem("has a different length").differs(file.bytes, found.bytes)));
        }
        return Ok((found.digest != file.digest).then(|| differs(&found.digest)));
    }
    let metadata = match std::fs::metadata(&path) {
        Ok(metadata) => metadata,
        Err(error) if matches!(error.kind(), Os::NotFound | Os::NotADirectory) => {
            return Ok(Some(problem(MISSING)));
        }
        Err(error) => return Err(failed(error.into())),
    };
    // Other kinds of files are not opened: opening a pipe would block until it has a writer.
    if !metadata.is_file() {
        return Ok(Some(problem("is not a regular file")));
    }
    if metadata.len() != file.bytes {
        return Ok(Some(problem("has a different length").differs(file.bytes, metadata.len())));
    }
    let found = hash_path(&path, metadata.len(), file.digest.algorithm(), session).map_err(failed)?;
    Ok((found != file.digest).then(|| differs(&found)))
}

/// Returns the first difference between a tensor and its record in the receipt.
fn compare_tensor(expected: &TensorRecord, found: &TensorRecord) -> Option<Problem> {
    let problem = |what| Problem::new(Subject::Tensor, &expected.name, what);
    Some(if found.dtype != expected.dtype {
        problem("has a different dtype").differs(&expected.dtype, &found.dtype)
    } else if found.shape != expected.shape {
        problem("has a different shape")
            .differs(format!("{:?}", expected.shape), format!("{:?}", found.shape))
    } else if found.bytes != expected.bytes {
        problem("has a different length").differs(expected.bytes, found.bytes)
    } else if found.content != expected.content {
        problem("has different content").differs(&expected.content, &found.content)
    } else {
        return None;
    })
}
