//! Lines that Python wrote are the same values in Parquet, as pyarrow reads it, and in lines again.
#![expect(clippy::unwrap_used, reason = "tests")]

use tempfile::tempdir;
use tensorferry_tests::{Ferry, python};

#[test]
fn lines_of_python_arrive_in_parquet_and_in_lines_again() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let [lines, parquet, back] =
        ["in.jsonl", "out.parquet", "back.jsonl"].map(|name| folder.path().join(name));
    python::script("jsonl_make.py", [&lines]);
    ferry.convert(&lines, &parquet, &["--strict"]);
    ferry.convert(&parquet, &back, &["--strict"]);
    assert_eq!(python::script("jsonl_same.py", [&lines, &parquet, &back]).json(), 2000);
}
