//! Tests that pyarrow and ferry read the same values from CSV files that Python's `csv` module and
//! ferry write.

use tensorferry_tests::{Ferry, python};

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn rows_are_the_same_in_pyarrow() {
    let ferry = Ferry::new();
    for ending in ["csv", "tsv"] {
        let names = [
            format!("in.{ending}"),
            format!("{ending}.parquet"),
            format!("out.{ending}"),
            format!("out.{ending}.gz"),
        ];
        let [input, parquet, output, packed] = ferry.paths(names.each_ref().map(String::as_str));
        python::script("csv_make.py", [&input]);
        ferry.convert(&input, &parquet, &["--strict"]);
        for output in [&output, &packed] {
            ferry.convert(&parquet, output, &["--strict"]);
        }
        let files = if ending == "csv" { vec![&input, &output, &packed] } else { vec![&input, &output] };
        let arguments: Vec<_> = files.into_iter().chain([&parquet]).collect();
        assert_eq!(python::script("csv_same.py", arguments).json(), 5000);
    }
}
