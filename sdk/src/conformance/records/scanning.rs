//! Checks scans that request only some of the rows and fields.

use super::cell::{CellValue, cell};
use super::compare::difference;
use super::{ReadRows, count, pull};
use crate::conformance::rules::Rules;
use crate::records::{Comparator, ComparedValue, Comparison, FieldPath, Projection, RecordSet, ScanRequest};
use arrow_array::{Array as _, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Fields, SchemaRef};

/// Maximum number of columns and struct fields to check, because a sample may have thousands.
const MAX_FIELDS: usize = 16;

/// Checks ranges of rows, struct fields, and comparisons.
pub(super) fn check(rules: &Rules<'_>, set: &dyn RecordSet, expected: &ReadRows, title: &str) {
    let schema = expected.schema.clone();
    let all: Vec<Vec<RecordBatch>> = (0..set.splits().len())
        .map(|split| scan(rules, set, split, &ScanRequest::default(), &schema, title))
        .collect();
    check_ranges(rules, set, &all, &schema, title);
    check_fields(rules, set, &all, &schema, title);
    check_predicates(rules, set, &all, &schema, title);
}

fn scan(
    rules: &Rules<'_>,
    set: &dyn RecordSet,
    split: usize,
    scan: &ScanRequest,
    schema: &SchemaRef,
    title: &str,
) -> Vec<RecordBatch> {
    let input = || format!("{title}, split {split}, {scan:?}");
    let rows = rules.catch_panic(input, || pull(rules, set.scan(split, scan)?, schema, &input));
    rules.holds(rows, "the rows of a sample can be read with any request", &input())
}

/// Returns up to `limit` rows of these batches, starting at `first_row`.
fn window(batches: &[RecordBatch], first_row: u64, limit: Option<u64>) -> Vec<RecordBatch> {
    let (mut skip, mut left) = (first_row, limit.unwrap_or(u64::MAX));
    let mut rows = Vec::new();
    for batch in batches {
        let from = skip.min(batch.num_rows() as u64);
        let taken = left.min(batch.num_rows() as u64 - from);
        (skip, left) = (skip - from, left - taken);
        rows.push(batch.slice(usize::try_from(from).unwrap_or(0), usize::try_from(taken).unwrap_or(0)));
    }
    rows
}

fn check_ranges(
    rules: &Rules<'_>,
    set: &dyn RecordSet,
    all: &[Vec<RecordBatch>],
    schema: &SchemaRef,
    title: &str,
) {
    for (split, whole) in all.iter().enumerate() {
        let rows = count(whole);
        for (first_row, limit) in [
            (0, Some(0)),
            (0, Some(1)),
            (1, Some(1)),
            (rows / 2, None),
            (rows / 3, Some(rows / 2)),
            (rows.saturating_sub(1), Some(u64::MAX)),
            (rows, None),
            (rows + 1, Some(2)),
            (u64::MAX, Some(u64::MAX)),
        ] {
            let request = ScanRequest { first_row, limit, rows: 3, ..ScanRequest::default() };
            let found = scan(rules, set, split, &request, schema, title);
            let difference = difference(&window(whole, first_row, limit), &found);
            rules.require(difference.is_none(), "a scan has exactly the rows of its range", || {
                let max = limit.map_or("all".to_owned(), |limit| format!("at most {limit}"));
                let difference = difference.unwrap_or_default();
                format!(
                    "{title}, split {split}, {max} rows from {first_row}, expected and found: {difference}"
                )
            });
        }
    }
}

/// Collects the paths of all struct fields.
fn fields_of_structs(fields: &Fields, above: &FieldPath, paths: &mut Vec<FieldPath>) {
    for (place, field) in fields.iter().enumerate() {
        let path = [&above[..], &[place]].concat();
        if let DataType::Struct(children) = field.data_type() {
            fields_of_structs(children, &path, paths);
        }
        if path.len() > 1 && paths.len() < MAX_FIELDS {
            paths.push(path);
        }
    }
}

fn check_fields(
    rules: &Rules<'_>,
    set: &dyn RecordSet,
    all: &[Vec<RecordBatch>],
    schema: &SchemaRef,
    title: &str,
) {
    let mut paths = Vec::new();
    fields_of_structs(schema.fields(), &Vec::new(), &mut paths);
    for path in paths {
        let rule = "a scan has the requested fields";
        // Request this field and the last column.
        let last = vec![schema.fields().len() - 1];
        let columns = if path[0] < last[0] { vec![path, last] } else { vec![path] };
        let projection = rules.holds(Projection::new(schema, &columns), rule, title);
        let request = ScanRequest {
            columns: Some(columns),
            first_row: 1,
            limit: Some(u64::MAX),
            ..ScanRequest::default()
        };
        for (split, whole) in all.iter().enumerate() {
            let found = scan(rules, set, split, &request, &projection.schema(), title);
            let expected: Vec<RecordBatch> =
                window(whole, 1, None).iter().filter_map(|batch| projection.batch(batch).ok()).collect();
            let difference = difference(&expected, &found);
            rules.require(difference.is_none(), rule, || {
                format!("{title}, split {split}, {:?}: {difference:?}", request.columns)
            });
        }
    }
}

/// Checks that a scan returns all rows for which a comparison is true, in order.
fn check_predicates(
    rules: &Rules<'_>,
    set: &dyn RecordSet,
    all: &[Vec<RecordBatch>],
    schema: &SchemaRef,
    title: &str,
) {
    let rule = "a predicate keeps every row for which it is true";
    for (column, field) in schema.fields().iter().enumerate().take(MAX_FIELDS) {
        for (comparator, values) in [(Comparator::IsNull, vec![]), (Comparator::IsNotNull, vec![])]
            .into_iter()
            .chain(probes(field.data_type()))
        {
            let comparison = Comparison { column: vec![column], comparator, values };
            let request = ScanRequest { predicate: vec![comparison.clone()], ..ScanRequest::default() };
            for (split, whole) in all.iter().enumerate() {
                let found = scan(rules, set, split, &request, schema, title);
                let kept = count(&found);
                let must: u64 = whole.iter().map(|batch| matching(batch, &comparison)).sum();
                let still: u64 = found.iter().map(|batch| matching(batch, &comparison)).sum();
                rules.require(must == still && kept <= count(whole), rule, || {
                    format!("{title}, split {split}, {comparison:?}: {still} of {must} rows are present")
                });
            }
        }
    }
}

/// Returns comparisons that are true for some values of a column and false for others.
fn probes(data_type: &DataType) -> Vec<(Comparator, Vec<ComparedValue>)> {
    let values = match data_type {
        DataType::Boolean => vec![ComparedValue::Bool(false)],
        DataType::Utf8 | DataType::Binary => {
            vec![ComparedValue::Bytes(b"".to_vec()), ComparedValue::Bytes(b"m".to_vec())]
        }
        DataType::Float32 | DataType::Float64 => vec![ComparedValue::Float(0.0), ComparedValue::Int(1)],
        numbers if numbers.is_integer() => {
            vec![ComparedValue::Int(0), ComparedValue::Int(7), ComparedValue::Float(2.5)]
        }
        _ => return Vec::new(),
    };
    let comparators = [
        Comparator::Equal,
        Comparator::Unequal,
        Comparator::Less,
        Comparator::LessOrEqual,
        Comparator::Greater,
        Comparator::GreaterOrEqual,
        Comparator::In,
    ];
    let with = |value: &ComparedValue| comparators.map(|comparator| (comparator, vec![value.clone()]));
    values.iter().flat_map(with).collect()
}

/// Returns the number of rows in a batch for which a comparison is true.
fn matching(batch: &RecordBatch, comparison: &Comparison) -> u64 {
    let column = batch.column(comparison.column[0]);
    (0..batch.num_rows()).filter(|&row| is_true(comparison, value(column, row).as_ref())).count() as u64
}

/// Returns a value in the form that comparisons use, or `None` if the value is missing.
fn value(column: &ArrayRef, row: usize) -> Option<ComparedValue> {
    Some(match cell(column, row) {
        CellValue::Whole(number) if *column.data_type() == DataType::Boolean => {
            ComparedValue::Bool(number == 1)
        }
        CellValue::Whole(number) => ComparedValue::Int(number),
        CellValue::Single(number) => ComparedValue::Float(number.into()),
        CellValue::Real(number) => ComparedValue::Float(number),
        CellValue::Bytes(bytes) => ComparedValue::Bytes(bytes),
        CellValue::Null => return None,
        // NaN is not equal to any value.
        _ => ComparedValue::Float(f64::NAN),
    })
}

fn is_true(comparison: &Comparison, found: Option<&ComparedValue>) -> bool {
    let order = || comparison.values.iter().map(|value| found.and_then(|found| found.compare(value)));
    let any = |is: fn(std::cmp::Ordering) -> bool| order().any(|order| order.is_some_and(is));
    match comparison.comparator {
        Comparator::IsNull => found.is_none(),
        Comparator::IsNotNull => found.is_some(),
        Comparator::Unequal => found.is_some() && !any(std::cmp::Ordering::is_eq),
        Comparator::Equal | Comparator::In => any(std::cmp::Ordering::is_eq),
        Comparator::Less => any(std::cmp::Ordering::is_lt),
        Comparator::LessOrEqual => any(std::cmp::Ordering::is_le),
        Comparator::Greater => any(std::cmp::Ordering::is_gt),
        Comparator::GreaterOrEqual => any(std::cmp::Ordering::is_ge),
    }
}
