//! Converts tensors to records: creates records from a model's tensors and writes them.

use crate::bridge::column_metadata::{ColumnsMetadata, KEY};
use crate::bridge::crossing::RecordOf;
use crate::bridge::row_records::RowRecords;
use crate::bridge::tensor_records::TensorRecords;
use crate::conversion::divide;
use crate::conversion::input::RecordInput;
use crate::conversion::output::write_records;
use crate::steps::{FlowSource, Origin};
use tensorferry_convert::context::ConversionContext;
use tensorferry_convert::report::Report;
use tensorferry_convert::steps::{self, AnyStep};
use tensorferry_convert::{models, sidecars};
use tensorferry_core::formats::registry::RegisteredFormat;
use tensorferry_core::read::losses;
use tensorferry_core::read::model::InputModel;
use tensorferry_sdk::{
    Capabilities, CatalogView, Context, Description, Error, Loss, LossKind, Result, TensorId,
};
use tensorferry_tensors::logical::Logical;
use tensorferry_tensors::steps::adapt::{AdaptedCatalog, select};
use tensorferry_tensors::stored::Stored;

pub fn convert(
    context: &ConversionContext<'_>,
    probed: Result<&RegisteredFormat>,
    steps: Vec<AnyStep>,
) -> Result<Report> {
    let divided = divide::to_records(steps)?;
    let models = models::read(context, probed)?;
    let model = only(models)?;
    let (session, target) = (context.session, &context.target);
    let part = &context.part;
    let of_reader = steps::of_format(model.input.catalog.steps())?;
    let facts = context.facts(&model, &divided.tensors)?;
    // Even a format that can store the attributes of tensors cannot store them when the tensors are
    // written as rows.
    let mut of_rows = Description::clone(&target.format.description);
    of_rows.capabilities = Capabilities(of_rows.capabilities.0 & !Capabilities::ATTRIBUTES.0);
    let AdaptedCatalog { catalog, mut losses, notes, codes, .. } =
        select(&facts, part, &of_reader, &divided.tensors, &of_rows)?;
    let kept = catalog.metadata().get(KEY).and_then(|value| value.as_text());
    let kept = kept.map(ColumnsMetadata::parse).unwrap_or_default();
    // This metadata entry determines the columns, so it is not lost.
    losses.retain(|loss| !(loss.kind == LossKind::Metadata && loss.what == KEY));
    notes.iter().for_each(|note| session.note(note));
    let logical = Logical::new(Stored::new(&model.input, &catalog, session, target.spill()));
    losses.extend(of_ties(&logical));
    let (records, made): (u64, Box<dyn FlowSource + '_>) = match divided.crossing {
        RecordOf::Row => {
            if let Some(tensor) = catalog.tensors().iter().find(|tensor| codes.has(tensor)) {
                return Err(codes.error(tensor, "--step dequantize"));
            }
            let rows = RowRecords::new(&logical, &kept)?;
            (rows.records(), Box::new(rows))
        }
        RecordOf::Tensor => {
            let tensors = TensorRecords::new(&logical)?;
            (tensors.records(), Box::new(tensors))
        }
    };
    let sidecars = sidecars::find(context, &[&model], &|_| false)?;
    sidecars.account().iter().for_each(|account| model.context.keep_account((*account).clone()));
    losses.extend(sidecars.losses().iter().cloned());
    let why = "other files are not copied to an output of records";
    losses.extend(sidecars.names().map(|name| Loss::new(LossKind::Sidecar, name, why)));
    sidecars.notes().iter().for_each(|note| session.note(note));
    let input = RecordInput {
        origin: Origin::Other(&*made),
        records: Some(records),
        steps: &divided.records,
        format: &model.input.format,
        source: &model.input.source,
        losses,
        session,
    };
    let bytes = catalog.tensors().iter().map(|tensor| tensor.bytes).sum();
    let written = write_records(context, &model.context, &input, bytes);
    let written = written.map_err(|error| model.input.source.attribute_error(error))?;
    drop(input);
    drop(made);
    drop(logical);
    model.close()?;
    written.commit()
}

/// Returns the only model of the input, or an error if there are several.
fn only(mut models: Vec<InputModel<'_>>) -> Result<InputModel<'_>> {
    match (models.pop(), models.last()) {
        (Some(model), None) => Ok(model),
        (Some(model), Some(other)) => Err(Error::usage("the input contains more than one model")
            .found(format!("one in {:?}, one in {:?}", other.folder, model.folder))
            .hint("pass the folder of one model")),
        (None, _) => Err(Error::plugin("the input holds no model")),
    }
}

/// Returns notes on tied tensors, which become separate columns or records that do not refer to
/// each other.
fn of_ties(logical: &Logical<'_>) -> Vec<Loss> {
    let tied = |id: TensorId| {
        let first = logical.tied_to(id);
        (first != id).then(|| losses::of_tie(logical, id, first, ""))
    };
    logical.tensor_ids().filter_map(tied).collect()
}
