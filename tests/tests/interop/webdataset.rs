//! Tests that Python's tarfile module, which `webdataset` uses, reads the same samples as `ferry`.
//! If `webdataset` is installed, it is also tested.

use tensorferry_tests::{Ferry, python};

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn samples_are_the_same_in_python() {
    let ferry = Ferry::new();
    let [input, parquet, output, packed] = ferry.paths(["in.tar", "rows.parquet", "out.tar", "out.tar.gz"]);
    python::script("webdataset_make.py", [&input]);
    ferry.convert(&input, &parquet, &["--from", "webdataset", "--strict"]);
    for output in [&output, &packed] {
        ferry.convert(&parquet, output, &["--strict"]);
        assert_eq!(python::script("webdataset_same.py", [&input, output]).json(), 500);
    }
}
