//! The SDK's conformance suite.

use crate::common::case;
use tensorferry_mds::Mds;
use tensorferry_sdk::conformance::{Preset, Sample, check};
use tensorferry_sdk::{Entry, Side};

fn sample(name: &str, columns: &[&str], rows: u64) -> Sample {
    Sample::set(Entry::Folder, case(name)).holding(columns).of_rows(rows)
}

#[test]
fn conforms() {
    let samples = [sample("all_encodings", &["nd", "s", "u64"], 5), sample("zstd", &["a", "id", "text"], 12)];
    let report = check(&Mds, &samples);
    assert_eq!(report.rows, 17);
    assert!(report.damaged > 10_000 && report.written > 40, "{report:?}");
}

#[test]
fn conforms_with_other_options() {
    for (key, value) in [
        ("compression", "zstd"),
        ("compression", "gz"),
        ("compression", "bz2"),
        ("compression", "br"),
        ("compression", "snappy"),
        ("hashes", "sha1,xxh64"),
        ("nulls", "json"),
        ("nulls", "error"),
        ("lists", "json"),
        ("shard_rows", "2"),
    ] {
        let format = Preset::new(Mds).with(Side::Writer, key, value);
        let report = check(&format, &[sample("pickle_column", &["id", "o"], 2)]);
        assert!(report.written > 20, "{key}={value}: {report:?}");
    }
}
