//! A tensor output: all models with their layouts, and the sidecar files to copy.

use crate::context::ConversionContext;
use crate::publication::PlannedOutput;
use crate::receipt::Receipt;
use crate::receipts::draft_tensors::draft_tensors;
use crate::report::Report;
use crate::sidecars::{self, Sidecars};
use crate::tensors::PlannedModel;
use crate::write::verify::{entry, verify};
use std::path::{Path, PathBuf};
use tensorferry_core::formats::used::UsedFormat;
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_core::read::model::InputModel;
use tensorferry_publish::stage::{FileKind, StagedFile};
use tensorferry_publish::staging::Staging;
use tensorferry_sdk::{Capabilities, Error, Layout, LossKind, OutputFile, OutputId, Result, Role};
use tensorferry_tensors::tally;

/// Advice for users if the target format cannot store columns of strings.
const STRINGS_ADVICE: &str =
    "--step tensors:column,strings=bytes writes strings as tensors of their bytes and end offsets";

pub(crate) struct TensorOutput<'a> {
    context: &'a ConversionContext<'a>,
    models: Vec<PlannedModel<'a>>,
    sidecars: Sidecars,
}

impl<'a> TensorOutput<'a> {
    /// Creates the output for these models and for the sidecar files to copy.
    pub(crate) fn new(context: &'a ConversionContext<'a>, models: Vec<PlannedModel<'a>>) -> Result<Self> {
        let inputs: Vec<&InputModel<'_>> = models.iter().map(|model| model.model).collect();
        let is_output = |name: &str| models.iter().any(|model| model.has_file(name));
        let mut sidecars = sidecars::find(context, &inputs, &is_output)?;
        for model in &models {
            sidecars.follow_casts(&context.carried_folder(), model.model, model.selected)?;
        }
        Ok(Self { context, models, sidecars })
    }

    /// Returns the report before any file is written.
    pub(crate) fn report(&self) -> Result<Report> {
        let lost = self.models.iter().flat_map(PlannedModel::losses);
        let told = self.sidecars.losses();
        let unfollowed = self.models.iter().flat_map(|planned| {
            let losses = planned.model.context.unfollowed(&planned.model.input.source);
            losses.into_iter().map(|loss| planned.model.place(&loss))
        });
        let unfollowed = unfollowed.filter(|loss| told.iter().all(|other| other.what != loss.what));
        let lost = lost.chain(told.iter().cloned()).chain(unfollowed).collect();
        let mut report = Report::new(self.context.request, &self.context.target, lost);
        report.tensors = self.models.iter().map(PlannedModel::tensors).sum();
        report.notes.extend(self.models.iter().flat_map(|model| model.selected.notes.iter().cloned()));
        report.notes.extend_from_slice(self.sidecars.notes());
        report.account = self.sidecars.account().cloned();
        if self.models.iter().any(PlannedModel::lacks_strings) {
            report.notes.push(STRINGS_ADVICE.to_owned());
        }
        report.readers = UsedFormat::all(self.models.iter().map(|model| &model.model.input.format));
        report.files_read = self.models.iter().map(|model| model.model.input.source.opened().len()).sum();
        self.context.request.losses.check(&report.losses)?;
        self.check_carried(&report)?;
        Ok(report)
    }

    /// Returns an error if the output would contain no tensors although the input contains some. An
    /// output without tensors is allowed if the format can store the tree of non-tensor state.
    fn check_carried(&self, report: &Report) -> Result<()> {
        let keeps_tree = self.context.target.format.description.capabilities.has(Capabilities::TREE);
        let has_tree = |model: &PlannedModel<'_>| model.selected.catalog.tree().root().is_some();
        let has_tensors = |model: &PlannedModel<'_>| !model.model.input.catalog.tensors().is_empty();
        let is_carried = report.tensors > 0 || (keeps_tree && self.models.iter().any(has_tree));
        let request = &self.context.request.input;
        if is_carried || request.may_be_empty() || !self.models.iter().any(has_tensors) {
            return Ok(());
        }
        let error = Error::unsupported("the output would have no tensors")
            .file(self.context.source.entry_path().display().to_string())
            .hint("pass --allow-empty to write an output without tensors");
        let of_tensor = report.losses.iter().find(|loss| loss.kind == LossKind::Tensor);
        Err(match of_tensor.or(report.losses.first()) {
            Some(loss) => error.found(loss),
            None => error,
        })
    }

    /// Returns the report of a dry run.
    pub(crate) fn foresee(&self, mut report: Report) -> Result<Report> {
        report.notes.extend(tally::foresee(self.models.iter().map(|model| &model.logical))?);
        let mut files = Vec::new();
        for layout in self.layouts() {
            // The length of a streamed file is not known yet and is reported as 0.
            let files_of_unknown_length = layout.files_of_unknown_length();
            for (id, file) in (0..).map(OutputId).zip(layout.files()) {
                files.push((
                    file.path.clone(),
                    if files_of_unknown_length.contains(&id) { 0 } else { file.len },
                ));
            }
        }
        let report = Report { bytes: self.bytes(), ..report };
        Ok(report.planned(files, &self.context.target, self.context.started, self.context.session))
    }

    /// Releases the writer's plans and closes the storages. Returns every file that was read, with
    /// the file's identity when it was opened.
    pub(crate) fn close(self) -> Result<Vec<(PathBuf, FileIdentity)>> {
        let Self { context, models, sidecars } = self;
        let mut inputs: Vec<_> = models.iter().flat_map(|model| model.model.files()).collect();
        drop(models);
        context.target.format.check_faults()?;
        inputs.extend(sidecars.files(&context.carried_folder())?);
        Ok(inputs)
    }

    fn layouts(&self) -> impl Iterator<Item = &Layout> {
        self.models.iter().map(|model| &model.planned.layout)
    }
}

impl PlannedOutput for TensorOutput<'_> {
    fn files(&self) -> Vec<StagedFile> {
        let output = |file: &OutputFile| {
            let kind = if file.role == Role::Index { FileKind::Index } else { FileKind::Data };
            StagedFile::new(&*file.path, kind)
        };
        let sidecar = |name: &str| StagedFile::new(name, FileKind::Sidecar);
        let files = self.layouts().flat_map(|layout| layout.files()).map(output);
        files.chain(self.sidecars.names().chain(self.sidecars.made()).map(sidecar)).collect()
    }

    fn superseded(&self) -> Vec<(&str, Role)> {
        let patterns = self.layouts().flat_map(|layout| layout.superseded());
        patterns.map(|(pattern, role)| (pattern.as_str(), *role)).collect()
    }

    fn reads_from(&self, path: &Path) -> bool {
        self.models.iter().any(|model| model.model.input.source.has_opened(path))
    }

    fn bytes(&self) -> u64 {
        self.layouts().map(Layout::copied_bytes).sum()
    }

    fn known_len(&self) -> Option<u64> {
        Some(self.bytes())
    }

    fn write(&mut self, stage: &dyn Staging, report: &mut Report) -> Result<Vec<u64>> {
        let mut lens = Vec::new();
        for model in &mut self.models {
            lens.extend(model.write(self.context, stage, report)?);
        }
        lens.extend(self.sidecars.copy(&self.context.carried_folder(), stage, self.context.session)?);
        Ok(lens)
    }

    fn digest(&mut self) -> Result<()> {
        for model in &mut self.models {
            model.digests =
                model.copy_digests.as_ref().map(|seen| seen.contents(&model.logical)).transpose()?;
        }
        Ok(())
    }

    fn verify(&self, stage: &dyn Staging, report: &mut Report) -> Result<()> {
        for PlannedModel { model, logical, planned, digests, .. } in &self.models {
            let known = digests.as_deref();
            let entry = entry(&self.context.target.target, &planned.layout);
            let written = stage.written(&model.folder, entry, self.context.session)?;
            let verified = verify(&written, &self.context.target, logical, &planned.layout, known)?;
            report.verified = Some(report.verified.unwrap_or(0) + verified);
        }
        Ok(())
    }

    fn receipt(&self, stage: &dyn Staging, report: &Report) -> Result<Receipt> {
        draft_tensors(self.context, &self.models, &self.sidecars, stage, report)
    }
}
