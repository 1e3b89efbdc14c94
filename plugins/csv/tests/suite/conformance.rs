//! Runs the SDK's conformance suite on this format.

use std::collections::BTreeMap;
use tensorferry_csv::Csv;
use tensorferry_sdk::conformance::{Preset, Sample, check};
use tensorferry_sdk::{Entry, Side};

const LINES: &str = "id,word,at\r\n1,\"a\n\"\"b\",2024-02-29\n\n2,,\n-3,x,2024-03-01\n";

fn folder() -> Sample {
    let files = [("a.csv", "id\n1\n"), ("b.csv", ""), ("c.tsv", "id\n2\n3")];
    let files: BTreeMap<String, Vec<u8>> =
        files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
    Sample::set(Entry::Folder, files).holding(&["id"]).of_rows(3)
}

#[test]
fn conforms() {
    let file = Sample::file("a.csv", LINES).holding(&["id", "word", "at"]).of_rows(3);
    let report = check(&Csv, &[file, folder()]);
    assert_eq!((report.rows, report.damaged), (6, 3 * (LINES.len() + 11)), "{report:?}");
    assert!(report.written > 100, "{report:?}");
}

#[test]
fn conforms_with_other_options() {
    // The sets of options are tested in parallel, because each one takes half a second.
    for (format, options) in [
        (Preset::new(Csv).with(Side::Reader, "nulls", "NA"), &[("compression", "gzip"), ("nulls", "NA")][..]),
        (Preset::new(Csv), &[("compression", "zstd"), ("shards", "2")]),
        (Preset::new(Csv), &[("shard_rows", "2")]),
    ] {
        let format =
            options.iter().fold(format, |format, (key, value)| format.with(Side::Writer, key, value));
        let report = check(&format, &[folder()]);
        assert!(report.written > 100, "{options:?}: {report:?}");
    }
    let mut format = Preset::new(Csv);
    for side in [Side::Reader, Side::Writer] {
        format = format.with(side, "delimiter", ";").with(side, "quote", "'");
    }
    let sample = Sample::file("a.csv", "id;word\n1;'a;''b'\n").holding(&["id", "word"]).of_rows(1);
    assert!(check(&format, &[sample]).written > 100);
}
