//! Lines that Python wrote are the same values in Parquet, as pyarrow reads it, and in lines again.
#![expect(clippy::unwrap_used, reason = "tests")]

use ferry_jsonl::JsonLines;
use ferry_parquet::Parquet;
use std::path::Path;
use std::sync::Arc;
use tempfile::tempdir;
use tensorferry_sdk::{Format, MemoryContext, MemorySource, Target};
use tensorferry_tests::python;
use tensorferry_tests::records::{self, Rows};

fn rows_of(format: &dyn Format, path: &Path) -> Rows {
    let source =
        MemorySource::file(path.file_name().unwrap().to_str().unwrap(), std::fs::read(path).unwrap());
    records::read(format, Arc::new(source), &MemoryContext::default()).unwrap()
}

fn write(format: &dyn Format, rows: &Rows, path: &Path) {
    let name = path.file_name().unwrap().to_str().unwrap();
    let mut files = records::write(format, rows, &Target::File(name.to_owned()), &[]).unwrap();
    std::fs::write(path, files.remove(name).unwrap()).unwrap();
}

#[test]
fn lines_of_python_arrive_in_parquet_and_in_lines_again() {
    let folder = tempdir().unwrap();
    let [lines, parquet, back] =
        ["in.jsonl", "out.parquet", "back.jsonl"].map(|name| folder.path().join(name));
    python::script("jsonl_make.py", [&lines]);
    write(&Parquet, &rows_of(&JsonLines, &lines), &parquet);
    write(&JsonLines, &rows_of(&Parquet, &parquet), &back);
    assert_eq!(python::script("jsonl_same.py", [&lines, &parquet, &back]).json(), 2000);
}
