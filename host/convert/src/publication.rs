//! Publishes a planned output: writes it into a stage, checks it, adds a receipt and commits it.
//! The same code is used for outputs of tensors and of records.

use crate::context::ConversionContext;
use crate::earlier;
use crate::observer::PreparedCommit;
use crate::receipt::{self, Receipt};
use crate::report::Report;
use crate::write::space::check_space;
use std::path::{Path, PathBuf};
use tensorferry_core::context::fault;
use tensorferry_core::formats::used::UsedFormat;
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_publish::output_bytes::FileShape;
use tensorferry_publish::remote::folder::is_refusal;
use tensorferry_publish::stage::{FileKind, StagedFile};
use tensorferry_publish::staging::{OutputFolder, Staging, output_folder};
use tensorferry_publish::stale::{self, StaleFiles};
use tensorferry_sdk::{Context, Error, Result, Role};

/// A planned output that can be written: tensors together with the sidecar files to copy, or
/// records.
pub trait PlannedOutput {
    /// Returns the output's files without the receipt. If a set's files get their names during
    /// writing, the set counts as one file until it is complete.
    fn files(&self) -> Vec<StagedFile>;

    /// Returns whether the writer names the files during writing.
    fn is_named_late(&self) -> bool {
        false
    }

    /// Returns patterns for the names of an older output's files that this output makes obsolete.
    fn superseded(&self) -> Vec<(&str, Role)>;

    /// Returns whether the input is read from the file at this path.
    fn reads_from(&self, path: &Path) -> bool;

    /// Returns the number of bytes to copy, as the progress bar counts them.
    fn bytes(&self) -> u64;

    /// Returns the total length of the output, if the length is known.
    fn known_len(&self) -> Option<u64>;

    /// Writes the files and returns their lengths, in the order of [`files`](Self::files).
    fn write(&mut self, stage: &dyn Staging, report: &mut Report) -> Result<Vec<u64>>;

    /// Computes the digests of the content that was read, unless the copy has already computed
    /// these digests.
    fn digest(&mut self) -> Result<()>;

    /// Reads the output back and compares it with the input.
    fn verify(&self, stage: &dyn Staging, report: &mut Report) -> Result<()>;

    fn receipt(&self, stage: &dyn Staging, report: &Report) -> Result<Receipt>;
}

/// An output that is written and checked, but not yet visible.
pub struct StagedOutput<'a> {
    context: &'a ConversionContext<'a>,
    folder: Box<dyn OutputFolder + 'a>,
    stage: Box<dyn Staging>,
    files: Vec<StagedFile>,
    lens: Vec<u64>,
    report: Report,
    /// Files of an earlier output that ferry wrote, with their identities when they were found.
    proven: Vec<(String, FileIdentity)>,
}

/// Writes an output into a stage next to its destination. If requested, also verifies the output
/// and adds a receipt.
///
/// The file names are checked before writing starts. If the writer names files during writing, the
/// names are checked again afterwards.
pub fn stage<'a>(
    context: &'a ConversionContext<'a>,
    output: &mut dyn PlannedOutput,
    mut report: Report,
) -> Result<StagedOutput<'a>> {
    let options = &context.request.output;
    let destination = &context.target.destination;
    let receipt = receipt::name_for(destination);
    let folder = output_folder(destination, context.session)?;

    let mut recovered = context.recovered.borrow_mut();
    recovered.append(folder.recover()?);
    report.recovered(recovered.clone());
    drop(recovered);
    if let (Some(destination), Some(len)) = (folder.local(), output.known_len()) {
        check_space(&destination.folder, len)?;
    }
    let naming = NameCheck { context, folder: &*folder, older: older_receipt(context, &*folder, &receipt) };
    let mut files = output.files();
    let stale = naming.check(output, &files, options.receipt.map(|_| &*receipt))?;
    if options.verify || options.receipt.is_some() {
        refuse_to_replace_inputs(context, output, &*folder, &files)?;
    }
    let mut stage = folder.begin(options.commit.force)?;
    let mut proven = Vec::new();
    if !output.is_named_late() {
        proven = naming.supersede(output, &files, stale, &mut *stage)?;
    }
    context.observer.before_copy(output.bytes());

    let lens = output.write(&*stage, &mut report)?;
    if output.is_named_late() {
        files = output.files();
        let stale = naming.check(output, &files, None)?;
        proven = naming.supersede(output, &files, stale, &mut *stage)?;
    }
    stage.finish(context.session)?;
    fault::reach("sealed")?;
    if options.receipt.is_some() {
        output.digest()?;
    }
    let receipt_file = options.receipt.map(|_| StagedFile::new(&*receipt, FileKind::Receipt));
    if options.verify || options.receipt.is_some() {
        if stage.is_remote() {
            context.observer.before_visible(stage.ready(&files)?)?;
        }
        // The receipt is included, because an older receipt with the same name is removed first.
        stage.make_readable(&files.iter().cloned().chain(receipt_file.clone()).collect::<Vec<_>>())?;
    }
    if options.verify {
        output.verify(&*stage, &mut report)?;
        fault::reach("verified")?;
    }
    if let Some(file) = receipt_file {
        let text = output.receipt(&*stage, &report)?.text()?;
        stage.create(&receipt, FileShape::of_len(text.len() as u64))?.write_all_at(&text, 0)?;
        stage.finish(context.session)?;
        // The receipt becomes visible last, after the receipt of an older output has been removed.
        files.push(file);
    }
    Ok(StagedOutput { context, folder, stage, files, lens, report, proven })
}

/// Checks the names of an output against the files in its folder.
struct NameCheck<'a> {
    context: &'a ConversionContext<'a>,
    folder: &'a dyn OutputFolder,
    /// The receipt of an older output, if the new output has no receipt.
    older: Option<StagedFile>,
}

impl NameCheck<'_> {
    /// Checks that the names are free or may be replaced, and returns the files of an older output
    /// that the new files replace.
    fn check(
        &self,
        output: &dyn PlannedOutput,
        files: &[StagedFile],
        receipt: Option<&str>,
    ) -> Result<StaleFiles> {
        let force = self.context.request.output.commit.force;
        let names: Vec<&str> = files.iter().map(|file| file.path.as_str()).chain(receipt).collect();
        self.folder.check_free(&names, force)?;
        let search = stale::Search::new(self.folder, output.superseded(), files)?;
        match search.find(self.older.clone(), force, |path| output.reads_from(path)) {
            Err(error) if self.folder.local().is_none() && is_refusal(error.kind()) => {
                self.context.session.note(&format!("cannot look for older files of this output: {error}"));
                Ok(StaleFiles::default())
            }
            found => found,
        }
    }

    /// Marks superseded files to be removed by the commit, and adds a note about the files that are
    /// kept. Returns the earlier files that ferry wrote, regardless of their names.
    fn supersede(
        &self,
        output: &dyn PlannedOutput,
        files: &[StagedFile],
        mut stale: StaleFiles,
        stage: &mut dyn Staging,
    ) -> Result<Vec<(String, FileIdentity)>> {
        let is_settled = |name: &str| {
            files.iter().any(|file| file.path == name)
                || stale.has(name)
                || output.reads_from(&self.folder.path_of(name))
        };
        let found = earlier::find(self.context, self.folder, &is_settled)?;
        let proven = found.proven.iter().map(|(file, identity)| (file.path.clone(), *identity)).collect();
        stale.gone.extend(found.proven.into_iter().map(|(file, _)| file));
        found.unproven.into_iter().for_each(|name| stale.keep(name));
        stale.note().iter().for_each(|note| self.context.session.note(note));
        stage.supersede(stale.gone)?;
        Ok(proven)
    }
}

/// Returns an error if an output object has the same URL as an input object. The input would be
/// overwritten before the output has been verified.
fn refuse_to_replace_inputs(
    context: &ConversionContext<'_>,
    output: &dyn PlannedOutput,
    folder: &dyn OutputFolder,
    files: &[StagedFile],
) -> Result<()> {
    if folder.local().is_some() {
        return Ok(());
    }
    let own = files.iter().map(|file| folder.path_of(&file.path)).find(|url| output.reads_from(url));
    own.map_or(Ok(()), |url| {
        Err(Error::usage("the output would replace the input before the output is verified")
            .file(url.display().to_string())
            .hint(format!("write to a name other than {}", context.target.output.display())))
    })
}

/// Returns the receipt of an older output, if the new output has no receipt. A file at the
/// receipt's path that is not a receipt belongs to the user.
fn older_receipt(
    context: &ConversionContext<'_>,
    folder: &dyn OutputFolder,
    name: &str,
) -> Option<StagedFile> {
    let is_stale = context.request.output.receipt.is_none()
        && folder
            .read_small(name, context.session.limits.header_bytes)
            .is_some_and(|text| Receipt::is_one(&text));
    is_stale.then(|| StagedFile::new(name, FileKind::Receipt))
}

impl StagedOutput<'_> {
    /// Makes the output visible. `inputs` are the files that were read, with their identities when
    /// they were opened.
    pub fn commit(self, inputs: Vec<(PathBuf, FileIdentity)>) -> Result<Report> {
        let Self { context, folder, mut stage, files, lens, report, proven } = self;
        context.session.check_cancelled()?;
        context.observer.before_commit(&PreparedCommit {
            destination: &context.target.destination,
            writer: UsedFormat::of(context.target.format),
            report: &report,
            inputs,
            outputs: stage.ready(&files)?,
        })?;
        for (name, identity) in proven {
            // The file has changed since it was checked, so it is not removed.
            if folder.identity(&name) != Some(identity) {
                stage.spare(&name);
            }
        }
        let committed = stage.commit(&files, context.request.output.commit)?;
        Ok(report.done(&lens, committed, context.started, context.session))
    }
}
