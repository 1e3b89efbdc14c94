//! Tests that little memory changes how a row group is decoded, but not its batches.

use crate::common::{file, open};
use std::sync::Arc;
use tensorferry_sdk::arrow_array::builder::{Int64Builder, ListBuilder};
use tensorferry_sdk::arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use tensorferry_sdk::records::{ScanRequest, from_stream};
use tensorferry_sdk::{ErrorKind, Limits, MemorySource, Result};
use tensorferry_test_kit::rows::rows;

const COLUMNS: u32 = 30;
const ROWS: u32 = 20_000;

/// Returns a file with one row group whose pages need about 10 MiB.
fn wide(dictionary: &str) -> Vec<u8> {
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    for column in 0..COLUMNS {
        let numbers = (0..ROWS).map(|row| (row % 7 != 3).then(|| f64::from(row * COLUMNS + column).sqrt()));
        columns.push((format!("n{column}"), Arc::new(numbers.collect::<Float64Array>())));
    }
    let words = (0..ROWS).map(|row| (row % 5 != 0).then(|| format!("{row:x>8}")));
    columns.push(("words".to_owned(), Arc::new(words.collect::<StringArray>())));
    let mut lists = ListBuilder::new(Int64Builder::new());
    for row in 0..ROWS {
        lists.values().append_slice(&vec![i64::from(row); row as usize % 4]);
        lists.append(row % 11 != 0);
    }
    columns.push(("lists".to_owned(), Arc::new(lists.finish())));
    let columns = columns.iter().map(|(name, column)| (&name[..], column.clone())).collect();
    file(&[rows(columns)], &[("compression", "snappy"), ("dictionary", dictionary)])
}

/// Reads rows with this amount of memory.
fn read_with(bytes: &[u8], memory: u64, scan: &ScanRequest) -> Result<Vec<RecordBatch>> {
    let mut limits = Limits::default();
    limits.memory_bytes = memory;
    let set = open(MemorySource::file("in.parquet", bytes), limits)?;
    assert_eq!(set.splits().len(), 1);
    set.scan(0, scan)?.map(|batch| batch.map_err(from_stream)).collect()
}

#[test]
fn columns_that_do_not_fit_together_are_read_in_groups() {
    let part = ScanRequest { first_row: 5_000, limit: Some(9_000), ..ScanRequest::default() };
    let small = ScanRequest { bytes: 64 << 10, ..ScanRequest::default() };
    let some = ScanRequest { columns: Some(vec![vec![2], vec![30], vec![31]]), ..small.clone() };
    for dictionary in ["true", "false"] {
        let bytes = wide(dictionary);
        for scan in [&ScanRequest::default(), &part, &small, &some] {
            let expected = read_with(&bytes, 256 << 20, scan).unwrap();
            for memory in [2 << 20, 4 << 20, 16 << 20] {
                let found = read_with(&bytes, memory, scan).unwrap();
                assert!(found == expected, "{dictionary} {scan:?} with {memory} bytes of memory");
            }
        }
    }
}

#[test]
fn a_column_that_does_not_fit_is_a_limit() {
    let bytes = wide("true");
    let error = read_with(&bytes, 256 << 10, &ScanRequest::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let details: Vec<_> = error.details().collect();
    let detail = |name| details.iter().find(|(found, _)| *found == name).map(|(_, text)| text.clone());
    assert!(detail("column").is_some() && detail("found").is_some(), "{error:?}");
    // The memory of the hint suffices for this column. The next column may need a little more.
    let hint = detail("hint").unwrap();
    let mebibytes = hint.strip_prefix("pass --memory ").and_then(|text| text.strip_suffix("MiB"));
    let mebibytes: u64 = mebibytes.unwrap().parse().unwrap();
    read_with(&bytes, (mebibytes + 1) << 20, &ScanRequest::default()).unwrap();
}
