//! Tests that scans use statistics to skip row groups.

use crate::common::{open, write};
use std::sync::Arc;
use tensorferry_sdk::arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use tensorferry_sdk::records::{Comparator, ComparedValue, Comparison, ScanRequest};
use tensorferry_sdk::{Limits, MemorySource};
use tensorferry_test_kit::rows::rows;

/// Scans skip row groups that cannot match, and do not lose any matching row.
#[test]
fn row_groups_that_cannot_match_are_left_out() {
    let column = |values: Vec<Option<i64>>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let words = |from: u32| {
        Arc::new((from..from + 100).map(|n| Some(format!("w{n:04}"))).collect::<StringArray>()) as ArrayRef
    };
    let reals = |from: u32| {
        let values = (from..from + 100).map(|n| if n % 10 == 0 { f64::NAN } else { f64::from(n) });
        Arc::new(values.map(Some).collect::<Float64Array>()) as ArrayRef
    };
    let group = |from: u32| {
        let numbers = (from..from + 100).map(|n| (n % 3 > 0).then_some(i64::from(n))).collect();
        rows(vec![("n", column(numbers)), ("w", words(from)), ("r", reals(from))])
    };
    let pieces: Vec<Vec<RecordBatch>> = [0, 100, 200].into_iter().map(|from| vec![group(from)]).collect();
    let written = write(&pieces[0][0].schema(), &pieces, &[]).unwrap();
    let source = MemorySource::file("out.parquet", written.files["out.parquet"].clone());
    let set = open(source, Limits::default()).unwrap();
    let left = |column: usize, comparator, values: Vec<ComparedValue>| -> Vec<usize> {
        let predicate = vec![Comparison { column: vec![column], comparator, values }];
        let scan = ScanRequest { predicate, ..ScanRequest::default() };
        let count = |split| set.scan(split, &scan).unwrap().map(|batch| batch.unwrap().num_rows()).sum();
        (0..set.splits().len()).map(count).collect()
    };
    assert_eq!(left(0, Comparator::Greater, vec![ComparedValue::Int(150)]), [0, 100, 100]);
    assert_eq!(left(0, Comparator::In, vec![ComparedValue::Int(1), ComparedValue::Int(250)]), [100, 0, 100]);
    assert_eq!(left(1, Comparator::Less, vec![ComparedValue::Bytes(b"w01".to_vec())]), [100, 0, 0]);
    assert_eq!(left(2, Comparator::LessOrEqual, vec![ComparedValue::Float(100.5)]), [100, 0, 0]);
    assert_eq!(left(2, Comparator::Unequal, vec![ComparedValue::Float(1.0)]), [100, 100, 100]);
    assert_eq!(left(0, Comparator::IsNull, vec![]), [100, 100, 100]);
}
