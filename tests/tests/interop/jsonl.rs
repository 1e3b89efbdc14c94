//! Tests that JSON lines written by Python have the same values after conversion to Parquet, as
//! read by pyarrow, and after conversion back.

use tensorferry_tests::{Ferry, python};

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn lines_of_python_arrive_in_parquet_and_in_lines_again() {
    let ferry = Ferry::new();
    let [lines, parquet, back] = ferry.paths(["in.jsonl", "out.parquet", "back.jsonl"]);
    python::script("jsonl_make.py", [&lines]);
    ferry.convert(&lines, &parquet, &["--strict"]);
    ferry.convert(&parquet, &back, &["--strict"]);
    assert_eq!(python::script("jsonl_same.py", [&lines, &parquet, &back]).json(), 2000);
}
