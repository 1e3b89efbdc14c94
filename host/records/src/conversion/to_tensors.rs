//! Reads record inputs as tensors.

use crate::bridge::crossing::TensorOf;
use crate::bridge::{self, RecordsAsTensors};
use crate::conversion::divide::{self, CrossingSteps};
use tensorferry_convert::context::ConversionContext;
use tensorferry_convert::inspect::temporary;
use tensorferry_convert::sides::check_sides;
use tensorferry_convert::steps::AnyStep;
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::options;
use tensorferry_core::formats::registry::RegisteredFormat;
use tensorferry_core::read::context::ReadContext;
use tensorferry_core::read::input::TensorInput;
use tensorferry_core::read::model::InputModel;
use tensorferry_core::read::source::FileSource;
use tensorferry_sdk::{Capabilities, Result, Side};
use tensorferry_tensors::steps::{Step, TensorAction};

/// Reads a record input as a model whose tensors are created from the records.
pub(super) fn as_model<'a>(
    context: &ConversionContext<'a>,
    format: &RegisteredFormat,
    steps: Vec<AnyStep>,
) -> Result<(InputModel<'a>, Vec<Step<TensorAction>>)> {
    let CrossingSteps { records, crossing, tensors } = divide::to_tensors(steps)?;
    let (request, target) = (context.request, &context.target);
    let description = &target.format.description;
    check_sides(request, &format.description, description)?;
    // This check reports invalid writer options early. The writer also checks its options, but only
    // after all records have been read.
    options::check(description, Side::Writer, &request.output.options)?;
    let reading = context.reading(context.purpose(format));
    let how = RecordsAsTensors {
        options: &context.options,
        steps: &records,
        tensor_of: crossing,
        keeps_metadata: description.capabilities.has(Capabilities::METADATA),
        spill: &target.spill(),
        may_be_empty: request.input.may_be_empty(),
    };
    let input = bridge::read(&context.source, format, how, &reading, context.session)?;
    Ok((InputModel { folder: String::new(), input, context: reading }, tensors))
}

/// Reads a record input as tensors for inspection.
pub(super) fn as_tensors(
    source: &FileSource,
    format: &RegisteredFormat,
    options: &[(String, String)],
    context: &ReadContext<'_>,
    session: &Session,
) -> Result<TensorInput> {
    let how = RecordsAsTensors {
        options,
        steps: &[],
        tensor_of: TensorOf::default(),
        keeps_metadata: true,
        spill: &temporary(),
        may_be_empty: true,
    };
    bridge::read(source, format, how, context, session)
}
