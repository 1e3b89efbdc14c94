#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::columns::{Missing, Shape, schema};
use crate::message::Kind;
use arrow_array::Array as _;
use arrow_schema::DataType;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tensorferry_proto::{BytesList, Example, Feature, Features, Int64List, Message, feature};

/// Returns empty rows with integer columns `0`, `1`, ...
fn rows(columns: usize) -> Rows {
    let column = |number: usize| Column {
        name: number.to_string(),
        part: Part::Features,
        key: number.to_string().into_bytes().into(),
        kind: Some(Kind::Int64),
        shape: Shape::Ragged(Vec::new()),
        leaf: DataType::Int64,
        missing: Missing::Null,
    };
    let columns: Vec<_> = (0..columns).map(column).collect();
    let wanted: Vec<_> = (0..columns.len()).collect();
    Rows::new(&columns, &wanted, schema(&columns, false), MessageKind::Example, true)
}

/// Returns the map entry of a feature.
fn entry(key: &str, kind: feature::Kind) -> Vec<u8> {
    let feature = std::collections::HashMap::from([(key.to_owned(), Feature { kind: Some(kind) })]);
    Example { features: Some(Features { feature: feature.into_iter().collect() }) }.encode_to_vec()
}

fn number(key: &str) -> Vec<u8> {
    entry(key, feature::Kind::Int64List(Int64List { value: vec![7] }))
}

/// Returns the shortest duration of several runs. Other processes on the machine can only slow a
/// run down.
fn shortest(mut run: impl FnMut()) -> Duration {
    let time = || {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    std::iter::repeat_with(time).take(3).min().unwrap()
}

#[test]
fn a_broken_record_costs_what_it_holds() {
    // A complete feature, followed by a truncated feature.
    let broken = [number("1"), vec![0x0a, 100]].concat();
    let time = |columns: usize| {
        let mut rows = rows(columns);
        shortest(|| {
            for number in 0..2000 {
                assert!(matches!(rows.push(&broken, number, 0), Err(RowError::Wire(_))));
            }
        })
    };
    let (few, many) = (time(10), time(10_000));
    assert!(many < 20 * few, "{few:?} {many:?}");

    let mut rows = rows(3);
    rows.push(&number("2"), 0, 0).unwrap();
    rows.push(&broken, 1, 0).unwrap_err();
    rows.push(&number("1"), 2, 0).unwrap();
    let batch = rows.finish().unwrap();
    let nulls: Vec<_> = batch.columns().iter().map(|column| [column.is_null(0), column.is_null(1)]).collect();
    assert_eq!(nulls, [[true, true], [true, false], [false, true]]);
}

#[test]
fn a_record_with_a_key_many_times_costs_what_it_holds() {
    let other = entry("0", feature::Kind::BytesList(BytesList { value: vec![b"x".to_vec()] }));
    let record = |times: usize| [other.repeat(times), number("0")].concat();
    let time = |times: usize| {
        let (mut rows, record) = (rows(1), record(times));
        shortest(|| rows.push(&record, 0, 0).unwrap())
    };
    let (few, many) = (time(500), time(10_000));
    assert!(many < 100 * few, "{few:?} {many:?}");
}

#[test]
fn a_column_that_no_row_has_costs_no_row_anything() {
    let mut rows = rows(20);
    let mut all = Vec::new();
    for batch in 0..20 {
        for record in 0..10 {
            rows.push(&number(&batch.to_string()), record, 0).unwrap();
        }
        all.push(rows.finish().unwrap());
    }
    let mut made = 0;
    for column in 0..20 {
        let arrays = all.iter().map(|batch| batch.column(column));
        made += 1 + arrays.clone().zip(arrays.skip(1)).filter(|(a, b)| !Arc::ptr_eq(a, b)).count();
    }
    // Each column has an array of values in one batch, and nulls in the other batches. The other
    // batches share a single array of nulls.
    assert_eq!(made, 20 * 3 - 2);
    assert_eq!((all[7].column(7).null_count(), all[7].column(8).null_count()), (0, 10));
}
