//! Tests of the golden libraries, which are a tensor plugin in C and a row plugin in Rust.
//! `tests/golden/build` built them once for revision 1.0 of the boundary, and they are never
//! rebuilt. Every later program must load them, and their outputs must remain byte-identical.

use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use tensorferry_tests::fixtures::inspected;
use tensorferry_tests::workspace::root;
use tensorferry_tests::{Ferry, args};

fn folder() -> PathBuf {
    root().join("tests/golden").join(format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS))
}

fn sha256(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Returns the libraries, and checks that they are unchanged.
fn libraries() -> Vec<PathBuf> {
    let sums = folder().join("SHA256SUMS");
    let text = std::fs::read_to_string(&sums).unwrap_or_else(|error| {
        panic!("{}: {error}: tests/golden/build makes the libraries", sums.display())
    });
    let library = |line: &str| {
        let (sum, name) = line.split_once("  ").unwrap();
        let library = folder().join(name);
        assert_eq!(sha256(&library), sum, "{name} is not the library that was built originally");
        library
    };
    let libraries: Vec<PathBuf> = text.lines().map(library).collect();
    assert_eq!(libraries.len(), 2, "{text}");
    libraries
}

#[test]
#[ignore = "converts with libraries that were built earlier"]
fn golden_libraries_write_what_they_always_wrote() {
    let ferry = Ferry::with_plugins(&libraries());
    let values: Vec<u8> = (0..96).collect();
    let data = ferry.safetensors("data.safetensors", &[("data", "F32", &[2, 3, 4], &values)]);
    let rows = ferry.write(
        "rows.jsonl",
        "{\"id\": 1, \"word\": \"a\", \"marks\": [1.5, 2]}\n{\"id\": 2, \"word\": null, \"marks\": []}\n",
    );
    let mut outputs = String::new();
    for (input, name) in [(&data, "a.nrrd"), (&rows, "b.rows")] {
        let output = ferry.at(name);
        let format = name.rsplit('.').next().unwrap();
        ferry.convert(input, &output, &["--to", format]);
        writeln!(outputs, "{}  {name}", sha256(&output)).unwrap();
        // The libraries must read their own outputs. ferry may write its own formats differently in
        // the future.
        if input == &rows {
            assert_eq!(ferry.rows(&output).iter().map(|row| row["id"].clone()).collect::<Vec<_>>(), [1, 2]);
        } else {
            let read =
                ferry.on("inspect", &output, &["--from", format, "--json", "--digest", "sha256"]).expect(0);
            assert_eq!(inspected(&read.json()), ferry.tensors(input), "{name}");
        }
    }
    // Run the whole suite across the boundary. The tables of these libraries may be shorter than
    // the current tables.
    for (library, sample) in [("nrrd", "a.nrrd"), ("rows", "b.rows")] {
        let library = folder().join(format!("libferry_{library}.so"));
        ferry.run(args!["plugin", "test", library, ferry.at(sample)]).expect(0).prints(&["conformant: all"]);
    }
    let committed = folder().join("OUTPUTS");
    if std::env::var_os("FERRY_TEST_WRITE_GOLDEN").is_some() {
        std::fs::write(&committed, &outputs).unwrap();
    }
    assert_eq!(outputs, std::fs::read_to_string(&committed).unwrap());
}
