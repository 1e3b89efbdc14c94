//! Runs the SDK's conformance suite on this format.

use std::collections::BTreeMap;
use tensorferry_jsonl::JsonLines;
use tensorferry_sdk::conformance::{Preset, Sample, check};
use tensorferry_sdk::{Entry, Side};

const LINES: &str = "{\"id\": 1, \"word\": \"a\\n\", \"list\": [1.5, 2]}\n{\"id\": 2, \"list\": []}\n\n{\"id\": -3, \"in\": {\"n\": null}}\n";

fn folder() -> Sample {
    let files = [("a.jsonl", "{\"id\": 1}\n"), ("b.jsonl", ""), ("c.jsonl", "{\"id\": 2}\n{\"id\": 3}")];
    let files: BTreeMap<String, Vec<u8>> =
        files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect();
    Sample::set(Entry::Folder, files).holding(&["id"]).of_rows(3)
}

#[test]
fn conforms() {
    let file = Sample::file("a.jsonl", LINES).holding(&["id", "word", "list"]).of_rows(3);
    let report = check(&JsonLines, &[file, folder()]);
    assert_eq!((report.rows, report.damaged), (6, 3 * (LINES.len() + 29)), "{report:?}");
    assert!(report.written > 100, "{report:?}");
}

#[test]
fn conforms_with_other_options() {
    // The sets of options are tested in parallel, because each one takes a second.
    for options in [
        &[("compression", "gzip"), ("nulls", "false")][..],
        &[("compression", "zstd"), ("shards", "2")],
        &[("shard_rows", "2")],
    ] {
        let format = options
            .iter()
            .fold(Preset::new(JsonLines), |format, (key, value)| format.with(Side::Writer, key, value));
        let report = check(&format, &[folder()]);
        assert!(report.written > 100, "{options:?}: {report:?}");
    }
}
