//! Drafts the receipt of an output of tensors, while its sources are open and the output is staged.
//!
//! The expected tensors are taken from the input, not from the output, so that the first
//! verification also checks the writer.

use super::draft::{self, ReceiptFiles, format_record};
use crate::context::ConversionContext;
use crate::receipt::{ModelRecord, Receipt, TensorRecord};
use crate::report::Report;
use crate::sidecars::Sidecars;
use crate::tensors::PlannedModel;
use crate::write::copy::CopyDigests;
use crate::write::verify::entry;
use tensorferry_publish::staging::Staging;
use tensorferry_sdk::{CatalogView, Entry, Error, Result, hex};
use tensorferry_tensors::content;

/// Drafts the receipt for the tensors and the files that were copied to the output.
pub(crate) fn draft_tensors(
    context: &ConversionContext<'_>,
    models: &[PlannedModel<'_>],
    sidecars: &Sidecars,
    stage: &dyn Staging,
    report: &Report,
) -> Result<Receipt> {
    let carried = context.carried_folder();
    let read = models.iter().flat_map(|PlannedModel { model, copy_digests, .. }| {
        let source = &*model.input.source;
        let seen = copy_digests.as_ref().map(CopyDigests::inputs);
        source.opened().into_iter().map(move |name| (source, name, model.path_of(name), seen))
    });
    let additional: Vec<_> =
        models.iter().flat_map(|model| model.model.context.additional_inputs()).collect();
    let written = models.iter().flat_map(|PlannedModel { planned, copy_digests, .. }| {
        let seen = move |place| copy_digests.as_ref().and_then(|copy_digests| copy_digests.output(place));
        planned.layout.files().iter().enumerate().map(move |(place, file)| (file.path.as_str(), seen(place)))
    });
    let files = ReceiptFiles {
        input: read.chain(sidecars.names().map(|name| (&carried, name, name.to_owned(), None))).collect(),
        additional: &additional,
        output: written.chain(sidecars.names().chain(sidecars.made()).map(|name| (name, None))).collect(),
    };
    Ok(Receipt {
        models: models.iter().map(|model| model_record(context, model)).collect::<Result<_>>()?,
        ..draft::draft(context, &files, stage, report)?
    })
}

fn model_record(context: &ConversionContext<'_>, planned: &PlannedModel<'_>) -> Result<ModelRecord> {
    let PlannedModel { model, logical, planned, digests, .. } = planned;
    let layout = &planned.layout;
    let digests = digests.as_ref().ok_or_else(|| Error::plugin("the digests of the tensors are missing"))?;
    let (mut tensors, mut contents) = (Vec::new(), Vec::new());
    for id in logical.tensor_ids().filter(|id| !layout.omitted().contains(id)) {
        let own = [logical.tensor(id).name.to_owned()];
        for name in layout.names(id).unwrap_or(&own) {
            let content = &digests[id.0 as usize];
            contents.push((name.clone(), *content));
            tensors.push(TensorRecord::of(logical, id, name, content)?);
        }
    }
    let content = content::catalog(contents.iter().map(|(name, content)| (name.as_str(), *content)));
    Ok(ModelRecord {
        folder: model.folder.clone(),
        entry: match entry(&context.target.target, layout) {
            Entry::File(name) | Entry::Prefix(name) => Some(name),
            Entry::Folder => None,
        },
        from: format_record(context.registry, &model.input.format),
        content: hex(&content),
        tensors,
    })
}
