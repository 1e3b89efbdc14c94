//! `ferry inspect` for a dataset.

use super::statistics;
use crate::args::Inspect;
use crate::losses;
use crate::page::{RecordsPage, records as page_of};
use crate::terminal::{self, counted, printable};
use globset::GlobSet;
use serde_json::{Value, json};
use std::fmt::Write;
use tensorferry::formats::globs;
use tensorferry::inspect::FoundInput;
use tensorferry::request::Part;
use tensorferry::rows::{
    self, ColumnSurvey, LengthStatistics, Rows, Survey, ValueStatistics, column, number_text, schema_file,
    survey, type_and_shape,
};
use tensorferry::{LossRecord, Session};
use tensorferry_sdk::arrow_schema::{DataType, Schema, TimeUnit};
use tensorferry_sdk::records::type_text;
use tensorferry_sdk::{Error, Loss, Purpose, Result};

pub(super) fn run(command: &Inspect, found: &FoundInput<'_>, session: &Session) -> Result<()> {
    if command.digest.is_some() {
        return Err(Error::usage("--digest needs tensors, and this input contains records"));
    }
    if command.reader.part != Part::Whole && !found.is_split {
        return Err(Error::usage(
            "--part selects a part of a checkpoint or a split, and this dataset has neither",
        ));
    }
    let open = |purpose| {
        let context = found.reading(session, purpose).allowing_unreadable(Some(true));
        rows::open(&found.source, found.format, &found.options, &context)
    };
    if command.schema {
        let rows = open(Purpose::SHOW)?;
        losses::report(&rows.losses()?, &session.take_notes(), false);
        terminal::print_json(&schema_file(&rows.set.schema()))?;
        return rows.close();
    }
    if command.histogram {
        return Err(Error::usage("--histogram needs tensors, and this input contains records"));
    }
    let of_stats = command.stats.as_ref().and_then(|glob| glob.as_ref());
    let wanted = globs(of_stats.map_or(&command.patterns, std::slice::from_ref))?;
    let (rows, mut survey) = rows::read_once(Purpose::SHOW, session, |purpose| {
        let rows = open(purpose)?;
        check_patterns(&wanted, &rows.set.schema()).map_err(|error| rows::refusal(error, purpose))?;
        let survey =
            terminal::with_progress(session, false, |_| survey(&rows, command.stats.is_some(), session))?;
        Ok((rows, survey))
    })?;
    survey.columns.retain(|column| wanted.is_empty() || wanted.is_match(column.field.name()));
    let losses = rows.losses()?;
    losses::report(&losses, &session.take_notes(), false);
    terminal::answer(command.json, || document(&rows, &survey, &losses), || text(&rows, &survey))?;
    rows.close()
}

/// Returns the JSON document of a page. The function can read piped input several times, because
/// the input was copied to a temporary file.
pub(super) fn page(
    command: &Inspect,
    title: &str,
    found: &FoundInput<'_>,
    session: &Session,
) -> Result<Value> {
    if command.reader.part != Part::Whole && !found.is_split {
        return Err(Error::usage(
            "--part selects a part of a checkpoint or a split, and this dataset has neither",
        ));
    }
    let of_stats = command.stats.as_ref().and_then(|glob| glob.as_ref());
    let wanted = globs(of_stats.map_or(&command.patterns, std::slice::from_ref))?;
    let context = found.reading(session, Purpose::SHOW);
    let rows = rows::open(&found.source, found.format, &found.options, &context)?;
    check_patterns(&wanted, &rows.set.schema())?;
    let mut survey =
        terminal::with_progress(session, false, |_| survey(&rows, command.stats.is_some(), session))?;
    survey.columns.retain(|column| wanted.is_empty() || wanted.is_match(column.field.name()));
    let losses = rows.losses()?;
    losses::report(&losses, &session.take_notes(), false);
    let columns = survey.columns.iter().map(column_record).collect();
    let shown = RecordsPage { rows: &rows, survey: &survey, columns, losses: &losses };
    let document = page_of(title, shown, session)?;
    rows.close()?;
    Ok(document)
}

/// Checks that the patterns match at least one column. The caller checks the patterns before it
/// reads any records.
fn check_patterns(wanted: &GlobSet, schema: &Schema) -> Result<()> {
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    if wanted.is_empty() || names.iter().any(|name| wanted.is_match(name)) {
        return Ok(());
    }
    Err(Error::usage("no column name matches").hint(format!("the columns are {}", names.join(", "))))
}

/// Returns the total size of the files that contain the rows.
fn stored_bytes(rows: &Rows<'_>) -> u64 {
    rows.set.splits().iter().map(|split| split.bytes).sum()
}

fn document(rows: &Rows<'_>, survey: &Survey, losses: &[Loss]) -> Value {
    json!({
        "format": rows.format.description.id,
        "records": survey.records,
        "bytes": stored_bytes(rows),
        "schema": survey.columns.iter().map(column_record).collect::<Vec<_>>(),
        "losses": losses.iter().map(LossRecord::of).collect::<Vec<_>>(),
    })
}

/// Returns a column as an entry of the schema file, extended with the survey's results.
fn column_record(found: &ColumnSurvey) -> Value {
    let mut record = column(&found.field);
    record["missing"] = found.missing.into();
    if found.lengths.count > 0 && has_lists(found) {
        record["lengths"] = spread(&found.lengths);
    }
    if found.sizes.count > 0 {
        record["sizes"] = spread(&found.sizes);
    }
    if let Some((min, max)) = extremes(found) {
        record["min"] = min;
        record["max"] = max;
    }
    if found.range.nan > 0 {
        record["nan"] = found.range.nan.into();
    }
    if let Some(detail) = &found.detail {
        record["stats"] = detail_record(found, detail);
    }
    record
}

/// Returns the statistics of a column. For a column of times, the mean is a time, and the standard
/// deviation is a number of seconds.
fn detail_record(found: &ColumnSurvey, detail: &ValueStatistics) -> Value {
    let mut record = json!({});
    if let Some(distinct) = &detail.distinct {
        record["distinct"] = distinct.count().into();
        record["distinct_is_exact"] = distinct.is_exact().into();
    }
    if let Some((is, is_not)) = detail.truths {
        record["true"] = is.into();
        record["false"] = is_not.into();
    }
    if let Some((mean, deviation)) = moments(found, detail) {
        record["mean"] = mean;
        record["std"] = deviation;
    }
    record
}

/// Returns the mean and the standard deviation. For decimals, the mean and the deviation are
/// numbers. For times, the mean is a time and the deviation is a number of seconds.
fn moments(found: &ColumnSurvey, detail: &ValueStatistics) -> Option<(Value, Value)> {
    let (mean, deviation) = (detail.mean()?, detail.deviation()?);
    let data_type = type_and_shape(found.field.data_type()).0;
    let float = |n: f64| if n.is_finite() { json!(n) } else { Value::from(n.to_string()) };
    if let Some(scale) = decimal_scale(data_type) {
        let unit = 10_f64.powi(-i32::from(scale));
        return Some((float(mean * unit), float(deviation * unit)));
    }
    match (data_type.is_temporal(), seconds(data_type)) {
        (true, Some(unit)) => {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the mean is between two integers of the column"
            )]
            let shown = number_text(data_type, mean.round() as i128)?;
            Some((shown.into(), float(deviation * unit)))
        }
        (true, None) => None,
        _ => Some((float(mean), float(deviation))),
    }
}

fn decimal_scale(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(*scale),
        _ => None,
    }
}

/// Returns the length of a time type's unit, in seconds.
fn seconds(data_type: &DataType) -> Option<f64> {
    Some(match data_type {
        DataType::Date32 => 86400.0,
        DataType::Date64 => 1e-3,
        DataType::Timestamp(unit, _)
        | DataType::Time32(unit)
        | DataType::Time64(unit)
        | DataType::Duration(unit) => match unit {
            TimeUnit::Second => 1.0,
            TimeUnit::Millisecond => 1e-3,
            TimeUnit::Microsecond => 1e-6,
            TimeUnit::Nanosecond => 1e-9,
        },
        _ => return None,
    })
}

fn has_lists(found: &ColumnSurvey) -> bool {
    !type_and_shape(found.field.data_type()).1.is_empty()
}

fn spread(spread: &LengthStatistics) -> Value {
    json!({ "min": spread.min, "mean": spread.mean(), "max": spread.max, "total": spread.total, "up_to": spread.up_to })
}

/// Returns the minimum and maximum as numbers, or as strings for times and decimals.
fn extremes(found: &ColumnSurvey) -> Option<(Value, Value)> {
    let range = &found.range;
    // An integer that JSON readers would round becomes a string, as in protobuf's JSON mapping.
    let plain = |n: i128| i64::try_from(n).map_or_else(|_| Value::from(n.to_string()), Value::from);
    let integer = |n: i128| number_text(found.field.data_type(), n).map_or_else(|| plain(n), Value::from);
    let float = |n: f64| if n.is_finite() { json!(n) } else { Value::from(n.to_string()) };
    let integers = range.integers.map(|(min, max)| (integer(min), integer(max)));
    integers.or_else(|| range.floats.map(|(min, max)| (float(min), float(max))))
}

fn text(rows: &Rows<'_>, survey: &Survey) -> String {
    let mut text = String::new();
    let _ =
        writeln!(text, "{} ({})", terminal::shown(&rows.source.entry_path()), rows.format.description.title);
    let mut files: Vec<&str> = rows.set.splits().iter().map(|split| split.file.as_str()).collect();
    files.dedup();
    let _ = writeln!(
        text,
        "{}, {} in {}",
        counted(survey.records, "record"),
        terminal::bytes(stored_bytes(rows)),
        counted(files.len() as u64, "file")
    );
    if !survey.columns.is_empty() {
        text.push('\n');
    }
    let names: Vec<String> = survey.columns.iter().map(|column| printable(column.field.name())).collect();
    let width = terminal::width(&names);
    for (found, name) in survey.columns.iter().zip(&names) {
        let _ = writeln!(text, "  {name:width$}  {}", facts(found).join(", "));
    }
    text
}

fn facts(found: &ColumnSurvey) -> Vec<String> {
    let (values, shape) = type_and_shape(found.field.data_type());
    let word = printable(&type_text(values));
    let dims: Vec<String> =
        shape.iter().map(|dim| dim.map_or_else(|| "?".to_owned(), |dim| dim.to_string())).collect();
    let mut facts = vec![if dims.is_empty() { word } else { format!("{word} [{}]", dims.join(", ")) }];
    if found.missing > 0 {
        facts.push(format!("{} missing", found.missing));
    }
    if has_lists(found) && found.lengths.count > 0 {
        facts.push(format!("{} values", between(&found.lengths)));
    }
    if found.sizes.count > 0 {
        facts.push(format!("{} bytes", between(&found.sizes)));
    }
    if let Some((min, max)) = extremes(found) {
        facts.push(format!("from {} to {}", plain(&min), plain(&max)));
    }
    if found.range.nan > 0 {
        facts.push(format!("{} NaN", found.range.nan));
    }
    if let Some(detail) = &found.detail {
        facts.extend(detail_facts(found, detail));
    }
    facts
}

fn detail_facts(found: &ColumnSurvey, detail: &ValueStatistics) -> Vec<String> {
    let mut facts = Vec::new();
    if let Some((is, is_not)) = detail.truths {
        facts.push(format!("{is} true, {is_not} false"));
    } else if let Some((mean, deviation)) = moments(found, detail) {
        let is_time = mean.is_string();
        let short = |value: &Value| value.as_f64().map_or_else(|| plain(value), statistics::short);
        let unit = if is_time { " s" } else { "" };
        facts.push(format!("mean {}, std {}{unit}", short(&mean), short(&deviation)));
    }
    if let Some(distinct) = &detail.distinct {
        let about = if distinct.is_exact() { "" } else { "about " };
        facts.push(format!("{about}{} distinct", distinct.count()));
    }
    facts
}

fn between(spread: &LengthStatistics) -> String {
    if spread.min == spread.max {
        return spread.min.to_string();
    }
    format!("{} to {} (mean {:.1})", spread.min, spread.max, spread.mean())
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
