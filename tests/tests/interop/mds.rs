//! Tests that the `streaming` library and ferry read each other's MDS datasets.

use tensorferry_tests::{Ferry, python};

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn samples_are_the_same_in_streaming() {
    let ferry = Ferry::new();
    for compression in ["", "zstd:7", "gz", "bz2", "br", "snappy"] {
        let names = ["in", "out", "rows.parquet", "again"]
            .map(|name| format!("{}{name}", compression.replace(':', "")));
        let [input, output, parquet, again] = ferry.paths(names.each_ref().map(String::as_str));
        let compressed = (!compression.is_empty()).then(|| compression.to_owned());
        let given: Vec<String> = [input.display().to_string()].into_iter().chain(compressed).collect();
        python::script("mds_make.py", &given);
        let codec = compression.split(':').next().filter(|codec| !codec.is_empty()).unwrap_or("none");
        let option = format!("compression={codec}");
        let options = [
            "--to",
            "mds",
            "--strict",
            "-o",
            &option,
            "-o",
            "hashes=sha1,xxh64",
            "-o",
            "max_shard_size=20KB",
        ];
        ferry.convert(&input, &output, &options);
        let same = |output: &std::path::PathBuf| {
            let paths = [&input, output].map(|path| path.display().to_string());
            let [one, other] = &paths;
            assert_eq!(python::script("mds_same.py", [one.as_str(), other, "sha1"]).json(), 300);
        };
        same(&output);
        ferry.convert(&output, &parquet, &["--strict"]);
        ferry.convert(&parquet, &again, &["--to", "mds", "--strict", "-o", "hashes=sha1"]);
        same(&again);
    }
}
