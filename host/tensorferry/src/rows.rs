//! Records: reading batches, showing them as cells or JSON lines, surveys and indexes.

use crate::steps;
pub use tensorferry_records::cells::{CellColumn, cells};
pub use tensorferry_records::flow::Flow;
pub use tensorferry_records::index::{beside, index};
pub use tensorferry_records::lines::{write_flow, write_lines};
pub use tensorferry_records::number_text::number_text;
pub use tensorferry_records::rows::{Rows, open, read_once, refusal};
pub use tensorferry_records::schema_file::{column, schema_file, type_and_shape};
use tensorferry_records::steps::RecordAction;
pub use tensorferry_records::steps::{Origin, make};
pub use tensorferry_records::survey::value_statistics::ValueStatistics;
pub use tensorferry_records::survey::{ColumnSurvey, LengthStatistics, Survey, survey};
use tensorferry_sdk::Result;
use tensorferry_tensors::steps::Step;

/// Parses steps on records.
///
/// # Errors
/// Returns an error for any reason that [`steps::parse`] lists, if a step applies to tensors, or if
/// a step would never end.
pub fn steps_on_records(texts: &[String]) -> Result<Vec<Step<RecordAction>>> {
    tensorferry_records::conversion::on_records(steps::parse(texts)?)
}

/// Checks that applying a step to each file of a dataset has the same result as applying it to the
/// whole dataset.
///
/// # Errors
/// Returns an error for any reason that [`steps::parse`] lists, or if the step depends on other records.
pub fn check_row_wise(text: &str) -> Result<()> {
    steps::parse(&[text.to_owned()])?
        .into_iter()
        .try_for_each(tensorferry_records::conversion::check_row_wise)
}
