//! Converts records to records.

use super::steps::on_records;
use crate::conversion::input::RecordInput;
use crate::conversion::output::write_records;
use crate::rows;
use tensorferry_convert::context::ConversionContext;
use tensorferry_convert::report::Report;
use tensorferry_convert::sides::check_sides;
use tensorferry_convert::steps::AnyStep;
use tensorferry_core::formats::registry::RegisteredFormat;
use tensorferry_core::read::part::Part;
use tensorferry_sdk::{Error, Result};

/// Converts the records of the input. `format` is the input's format.
pub fn convert(
    context: &ConversionContext<'_>,
    format: &RegisteredFormat,
    steps: Vec<AnyStep>,
) -> Result<Report> {
    let (request, session) = (context.request, context.session);
    check_sides(request, &format.description, &context.target.format.description)?;
    if let Part::Path(name) = &context.part {
        let error =
            Error::usage(format!("--part {name}: the input is records and has no split of that name"));
        return Err(error.file(context.source.entry_path().display().to_string()));
    }
    let steps = on_records(steps)?;
    let given = &context.options;
    let group = request.input.file_group.as_ref();
    let options = group.map_or_else(|| given.clone(), |group| group.reader_options(format, given));
    let read = |purpose| {
        let reading = context.reading(purpose);
        let rows = rows::open(&context.source, format, &options, &reading)?;
        let bytes = rows.set.splits().iter().map(|split| split.bytes).sum();
        let input = RecordInput::of_rows(&rows, &steps, session);
        let written = write_records(context, &reading, &input, bytes);
        let written = written.map_err(|error| rows.source.attribute_error(error))?;
        rows.close()?;
        written.commit()
    };
    let purpose = context.purpose(format);
    // Steps that are not row-wise may leave rows unread. A guess about the input could then not be
    // checked, so the reader must not guess.
    if request.dry_run || !steps.iter().all(|step| step.action.is_row_wise()) {
        return read(purpose);
    }
    rows::read_once(purpose, session, read)
}
