//! The SDK's conformance suite for this format.

use ferry_rows::Rows;
use tensorferry_sdk::Side;
use tensorferry_sdk::conformance::{Preset, Sample, check};

/// Returns three rows of two columns: integers, and lists of bytes.
fn sample() -> Sample {
    let mut bytes = b"ROWSFILE\x02\x00\x00\x02\x00id\x12\x04\x00tags".to_vec();
    for id in 1..=3_u8 {
        let mut row = vec![1, id, 0, 0, 0, 0, 0, 0, 0];
        row.extend([1, id - 1, 0, 0, 0]);
        for tag in 1..id {
            row.extend([1, 0, 0, 0, tag]);
        }
        bytes.extend(u32::try_from(row.len()).unwrap_or(0).to_le_bytes());
        bytes.extend(row);
    }
    Sample::file("a.rows", bytes).holding(&["id", "tags"]).of_rows(3)
}

#[test]
fn rows_conform() {
    let report = check(&Rows, &[sample()]);
    assert_eq!(report.rows, 3);
    assert!(report.damaged > 200 && report.written > 20, "{report:?}");
}

#[test]
fn rows_conform_in_small_splits() {
    let format = Preset::new(Rows).with(Side::Reader, "split", "2").with(Side::Writer, "piece", "7");
    assert!(check(&format, &[sample()]).written > 20);
}

#[test]
fn rows_conform_in_files_that_roll_under_an_index() {
    let format = Preset::new(Rows).with(Side::Writer, "shard_rows", "2").with(Side::Writer, "index", "true");
    assert!(check(&format, &[sample()]).written > 20);
}
