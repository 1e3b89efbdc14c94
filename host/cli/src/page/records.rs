//! Builds the page document of a dataset. The document contains a survey of all rows, distributions
//! of the values in the first rows, and a few rows as a table.

use super::js_integer;
use super::sample::{Sample, sample};
use serde_json::{Value, json};
use std::collections::HashMap;
use tensorferry::rows::{ColumnSurvey, Flow, Origin, Rows, Survey, cells, make, steps_on_records};
use tensorferry::{LossRecord, Session};
use tensorferry_sdk::{Loss, Result};

/// Number of rows in the table.
const MAX_ROWS: usize = 10;
/// Number of rows from which the distributions are computed.
const MAX_SAMPLED: usize = 2_000;
/// Maximum number of characters of a cell.
const MAX_CELL_CHARACTERS: usize = 120;

/// A dataset, and all data that a page shows for the dataset.
pub(crate) struct RecordsPage<'a> {
    /// The dataset, which can be read again.
    pub(crate) rows: &'a Rows<'a>,
    /// The survey of the selected columns.
    pub(crate) survey: &'a Survey,
    /// The columns, as in the document that `--json` prints, in the order of the survey.
    pub(crate) columns: Vec<Value>,
    /// The losses that the reader reported.
    pub(crate) losses: &'a [Loss],
}

/// Returns the document for a page. Reads the first rows a second time to create it.
pub(crate) fn records(title: &str, shown: RecordsPage<'_>, session: &Session) -> Result<Value> {
    let RecordsPage { rows, survey, columns, losses } = shown;
    let is_shown = |name: &str| survey.columns.iter().any(|column| column.field.name() == name);
    let sampled = first(rows, MAX_SAMPLED, session, |flow| sample(flow, session))?;
    let table = first(rows, MAX_ROWS, session, |flow| cells(flow, MAX_CELL_CHARACTERS, session))?;
    let table: Vec<_> = table.into_iter().filter(|column| is_shown(&column.name)).collect();
    let count = table.iter().map(|column| column.cells.len()).max().unwrap_or(0);
    let row =
        |row: usize| table.iter().map(|column| column.cells.get(row).cloned().flatten()).collect::<Vec<_>>();
    let Sample { columns: of_columns, pictures } = sampled;
    let of_columns: HashMap<String, Value> = of_columns.into_iter().collect();
    let files: std::collections::BTreeSet<&str> =
        rows.set.splits().iter().map(|split| split.file.as_str()).collect();
    Ok(json!({
        "kind": "records",
        "version": env!("CARGO_PKG_VERSION"),
        "title": title,
        "format": rows.format.description.id,
        "format_title": rows.format.description.title,
        "records": js_integer(survey.records),
        "bytes": js_integer(rows.set.splits().iter().map(|split| split.bytes).sum()),
        "files": files.len(),
        "columns": survey.columns.iter().zip(columns).map(|(found, record)| column(found, record, &of_columns)).collect::<Vec<_>>(),
        "rows": {
            "columns": table.iter().map(|it| json!({ "name": it.name, "is_number": it.is_number })).collect::<Vec<_>>(),
            "rows": (0..count).map(row).collect::<Vec<_>>(),
        },
        "images": pictures.into_iter().filter(|picture| picture["column"].as_str().is_some_and(&is_shown)).collect::<Vec<_>>(),
        "losses": losses.iter().map(LossRecord::of).collect::<Vec<_>>(),
    }))
}

fn column(found: &ColumnSurvey, mut record: Value, sampled: &HashMap<String, Value>) -> Value {
    let name = found.field.name();
    record["name"] = name.as_str().into();
    record["type"] = tensorferry_sdk::records::type_text(found.field.data_type()).into();
    if let Some(sample) = sampled.get(name) {
        record["sample"] = sample.clone();
    }
    record
}

/// Calls `look` with the first `count` rows.
fn first<T: Send>(
    rows: &Rows<'_>,
    count: usize,
    session: &Session,
    look: impl FnOnce(&mut dyn Flow) -> Result<T>,
) -> Result<T> {
    let steps = steps_on_records(&[format!("take:{count}")])?;
    std::thread::scope(|scope| {
        let mut flow = make(scope, Origin::Rows(rows), &steps, session)?;
        look(&mut *flow)
    })
}
