//! Runs the SDK's conformance suite on this format.

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
    // The sets of options are tested in parallel, because each one takes a second.
    for (compression, key, value) in [
        ("zstd", "hashes", "sha1,xxh64"),
        ("gz", "nulls", "json"),
        ("bz2", "nulls", "error"),
        ("br", "lists", "json"),
        ("snappy", "shard_rows", "2"),
    ] {
        let format = Preset::new(Mds).with(Side::Writer, "compression", compression);
        let format = format.with(Side::Writer, key, value);
        let report = check(&format, &[sample("pickle_column", &["id", "o"], 2)]);
        assert!(report.written > 20, "{compression}, {key}={value}: {report:?}");
    }
}
