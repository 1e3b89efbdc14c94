//! Tests that pyarrow and polars read the Arrow IPC files that `ferry` writes, and that `ferry`
//! reads theirs.

use tensorferry_tests::{Ferry, python};

#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn pyarrow_reads_what_is_written_and_the_other_way() {
    let ferry = Ferry::new();
    let [file, stream, lz4] = ferry.paths(["in.arrow", "in.arrows", "in.feather"]);
    python::script("arrow_make.py", [&file, &stream, &lz4]);
    for (input, output, options) in [
        (&file, "a.arrow", &[][..]),
        (&file, "a.arrows", &[]),
        (&stream, "b.arrow", &["-o", "compression=lz4"]),
        (&lz4, "c.feather", &["-o", "compression=zstd"]),
    ] {
        let output = ferry.at(output);
        ferry.convert(input, &output, &[&["--strict"], options].concat());
        assert_eq!(python::script("arrow_same.py", [input, &output]).json(), 1000);
    }
}

/// Tests batches that are read in slices, as polars and pyarrow write them.
#[test]
#[ignore = "installs torch and tensorflow from PyPI"]
fn large_batches_have_the_same_rows() {
    let ferry = Ferry::new();
    let folder = ferry.at("in");
    let names: Vec<String> =
        serde_json::from_value(python::script("arrow_large_make.py", [&folder]).json()).unwrap();
    assert_eq!(names.len(), 6);
    for name in names {
        let (input, output) = (folder.join(&name), ferry.at(&name));
        ferry.convert(&input, &output, &["--strict", "--memory", "64MiB"]);
        assert_eq!(python::script("arrow_large_same.py", [&input, &output]).json(), 300_000, "{name}");
    }
}
