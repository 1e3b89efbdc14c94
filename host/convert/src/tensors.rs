//! The stages that convert a model's tensors: select, plan, write. Each stage extends the result of
//! the previous stage.

use crate::context::ConversionContext;
use crate::report::Report;
use crate::steps;
use crate::write::copy::{CopyDigests, copy, read_again};
use crate::write::encode::encode;
use crate::write::plan::{self, PlannedLayout};
use crate::write::seal::seal;
use crate::write::shard_tag::with_tag;
use std::cell::Cell;
use std::collections::BTreeSet;
use tensorferry_core::context::fault;
use tensorferry_core::read::model::InputModel;
use tensorferry_publish::output_bytes::{FileShape, OutputBytes};
use tensorferry_publish::staging::Staging;
use tensorferry_sdk::{
    Capabilities, CatalogView, Content, Description, Dtype, Error, Layout, Loss, LossKind, OutputFile,
    OutputId, Result, TensorId, TensorWriter,
};
use tensorferry_tensors::content::ContentDigest;
use tensorferry_tensors::logical::Logical;
use tensorferry_tensors::steps::adapt::{self, AdaptedCatalog};
use tensorferry_tensors::steps::{Step, TensorAction, apply};
use tensorferry_tensors::stored::Stored;

/// A model and the part of the model to convert.
pub struct SelectedModel<'a> {
    pub model: &'a InputModel<'a>,
    /// The tensors, metadata and tree of the selected part, after the steps.
    pub selected: AdaptedCatalog,
    /// The writer, which requests steps and then plans the output.
    writer: Cell<Option<Box<dyn TensorWriter>>>,
}

/// A model whose output has a layout.
pub struct PlannedModel<'a> {
    pub model: &'a InputModel<'a>,
    /// The tensors, metadata and tree of the selected part, after the steps.
    pub selected: &'a AdaptedCatalog,
    pub logical: Logical<'a>,
    pub planned: PlannedLayout,
    /// Digests for the receipt that the copy has computed.
    pub copy_digests: Option<CopyDigests>,
    /// The digests of the model's tensors, once these digests have been computed.
    pub digests: Option<Vec<ContentDigest>>,
}

/// Selects the requested part of each model and applies the steps to it.
pub fn select<'a>(
    context: &ConversionContext<'_>,
    models: &'a [InputModel<'a>],
    steps: &[Step<TensorAction>],
) -> Result<Vec<SelectedModel<'a>>> {
    let (part, target) = (&context.part, &context.target.format.description);
    let select = |model: &'a InputModel<'a>| {
        let catalog = &model.input.catalog;
        let of_reader = steps::of_format(catalog.steps())?;
        let mut selected = adapt::select(&context.facts(model, steps)?, part, &of_reader, steps, target)?;
        let of_format = &model.input.format.description;
        selected.notes.extend(catalog.steps().iter().map(|step| asked_by(of_format, step)));
        let (output, asked) = (&context.target, &context.request.output);
        let options = with_tag(output, &asked.options, asked.commit.force, &model.folder, context.session)?;
        let writer = output.format.writer(&options, &model.context)?;
        apply_steps_of_writer(context, model, &*writer, &mut selected)?;
        Ok(SelectedModel { model, selected, writer: Cell::new(Some(writer)) })
    };
    models.iter().map(select).collect()
}

/// Applies the steps that the target's writer requests for a catalog.
fn apply_steps_of_writer(
    context: &ConversionContext<'_>,
    model: &InputModel<'_>,
    writer: &dyn TensorWriter,
    selected: &mut AdaptedCatalog,
) -> Result<()> {
    let target = &context.target;
    let stored = Stored::new(&model.input, &selected.catalog, context.session, target.spill());
    let texts = writer.steps(&Logical::new(stored), &model.context)?;
    if texts.is_empty() {
        return Ok(());
    }
    let (catalog, effects) = apply(selected.catalog.clone(), &steps::of_format(&texts)?)?;
    selected.catalog = catalog;
    let has_tree = target.format.description.capabilities.has(Capabilities::TREE);
    selected
        .losses
        .extend(effects.losses.into_iter().filter(|loss| has_tree || loss.kind != LossKind::State));
    selected.notes.extend(effects.notes);
    selected.notes.extend(texts.iter().map(|step| asked_by(&target.format.description, step)));
    Ok(())
}

fn asked_by(format: &Description, step: &str) -> String {
    format!("for {}: --step {step}", format.id)
}

/// Lets the target's writer lay out each model.
pub fn plan<'a>(
    context: &'a ConversionContext<'_>,
    selected: &'a [SelectedModel<'a>],
) -> Result<Vec<PlannedModel<'a>>> {
    let plan = |SelectedModel { model, selected, writer }: &'a SelectedModel<'a>| {
        let spill = context.target.spill();
        let logical = Logical::new(Stored::new(&model.input, &selected.catalog, context.session, spill));
        let target = &context.target;
        // The writer is dropped before the plugin's errors are collected.
        let writer = writer.take().ok_or_else(|| Error::plugin("a model is planned twice"))?;
        let planned = plan::plan(target, &*writer, model, &logical)?;
        check_codes(selected, &planned, target.format.description.capabilities)?;
        Ok(PlannedModel { model, selected, logical, planned, copy_digests: None, digests: None })
    };
    selected.iter().map(plan).collect()
}

/// Checks that codes of quantized weights can be written. Returns an error if the format has no
/// dtype for the codes, because only their scales would remain. Also returns an error if programs
/// would read the codes as numbers.
fn check_codes(selected: &AdaptedCatalog, planned: &PlannedLayout, target: Capabilities) -> Result<()> {
    if selected.codes.is_empty() {
        return Ok(());
    }
    let omitted = planned.layout.omitted();
    let is_refused = |id: &TensorId| target.has(Capabilities::NUMBERS) || omitted.contains(id);
    let tensors = (0..).map(TensorId).zip(selected.catalog.tensors());
    match tensors.into_iter().find(|(id, tensor)| is_refused(id) && selected.codes.has(tensor)) {
        Some((_, tensor)) => Err(selected.codes.error(tensor, "--step dequantize")),
        None => Ok(()),
    }
}

impl PlannedModel<'_> {
    pub(crate) fn has_file(&self, name: &str) -> bool {
        self.planned.layout.files().iter().any(|file| file.path == name)
    }

    /// Returns the model's losses, with names relative to the whole input.
    pub fn losses(&self) -> impl Iterator<Item = Loss> {
        self.selected.losses.iter().chain(&self.planned.losses).map(|loss| self.model.place(loss))
    }

    /// Returns the number of the model's tensors that are in the output.
    pub(crate) fn tensors(&self) -> u64 {
        u64::from(self.logical.tensor_count()) - self.planned.layout.omitted().len() as u64
    }

    pub(crate) fn write(
        &mut self,
        context: &ConversionContext<'_>,
        stage: &dyn Staging,
        report: &mut Report,
    ) -> Result<Vec<u64>> {
        let PlannedLayout { layout, plan, .. } = &mut self.planned;
        let files = create_files(stage, layout, &self.logical)?;
        let notes =
            encode(layout, &**plan, &self.logical, &self.model.context, context.target.format, &files)?;
        let asked = &context.request.output;
        let reading = &self.model.context;
        let (receipt, sync) = (asked.receipt, asked.commit.sync);
        let mut copied = copy(layout, &**plan, &self.logical, reading, &files, receipt, sync)?;
        self.copy_digests = copied.copy_digests.take();
        fault::reach("copied")?;
        report.losses.extend(copied.losses.iter().map(|loss| self.model.place(loss)));
        context.request.losses.check(&report.losses)?;
        seal(layout, &**plan, &copied, &notes, reading, &files)
    }

    /// Returns whether the target omits string tensors that were made from columns of records.
    pub(crate) fn lacks_strings(&self) -> bool {
        let is_text = |&id: &TensorId| self.logical.tensor(id).dtype == Dtype::STR;
        self.model.input.is_of_records() && self.planned.layout.omitted().iter().any(is_text)
    }
}

fn create_files(stage: &dyn Staging, layout: &Layout, logical: &Logical<'_>) -> Result<Vec<OutputBytes>> {
    let pool = stage.pool_for(layout.files().len());
    let unsettled = layout.files_of_unknown_length();
    let read_again = if stage.is_remote() { read_again(layout, logical)? } else { BTreeSet::new() };
    let create = |(index, file): (u32, &OutputFile)| {
        let id = OutputId(index);
        let is_known = matches!(file.content, Content::Copied(_)) && !unsettled.contains(&id);
        let late = layout.deferred().iter().filter(|(of, _)| *of == id);
        let shape = FileShape {
            len: is_known.then_some(file.len),
            late: late.map(|(_, range)| range.clone()).collect(),
            is_kept: unsettled.contains(&id) || read_again.contains(&id),
        };
        stage.create_in(pool.as_ref(), index as usize, &file.path, shape)
    };
    (0..).zip(layout.files()).map(create).collect()
}
