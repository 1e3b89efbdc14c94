//! Tests of the golden libraries, which are a tensor plugin in C and a row plugin in Rust.
//! `tests/golden/build` built them once for revision 1.0 of the boundary, and they are never
//! rebuilt. Every later program must load them, and their outputs must remain byte-identical.

use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tensorferry_tests::ferry::run;
use tensorferry_tests::fixtures::inspected;
use tensorferry_tests::workspace::root;
use tensorferry_tests::{Ferry, args};

fn folder(arch: &str) -> PathBuf {
    root().join(format!("tests/golden/{arch}-{}", std::env::consts::OS))
}

fn sha256(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// Returns the libraries, and checks that they are unchanged.
fn libraries(arch: &str) -> Vec<PathBuf> {
    let sums = folder(arch).join("SHA256SUMS");
    let text = std::fs::read_to_string(&sums).unwrap_or_else(|error| {
        panic!("{}: {error}: tests/golden/build makes the libraries", sums.display())
    });
    let library = |line: &str| {
        let (sum, name) = line.split_once("  ").unwrap();
        let library = folder(arch).join(name);
        assert_eq!(sha256(&library), sum, "{name} is not the library that was built originally");
        library
    };
    let libraries: Vec<PathBuf> = text.lines().map(library).collect();
    assert_eq!(libraries.len(), 2, "{text}");
    libraries
}

/// Converts with the golden libraries for a processor, and compares the outputs. `command` returns
/// the program, and `suite` checks a library and a sample against the rules.
pub(super) fn check(arch: &str, command: impl Fn(&Ferry) -> Command, suite: impl Fn(&Ferry, &Path, &Path)) {
    let libraries = libraries(arch);
    let ferry = Ferry::with_plugins(&libraries);
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
        run(command(&ferry).args(args!["convert", input, output, "--to", format])).expect(0);
        writeln!(outputs, "{}  {name}", sha256(&output)).unwrap();
        // The libraries must read their own outputs. ferry may write its own formats differently in
        // the future.
        if input == &rows {
            let read = run(command(&ferry).args(args!["cat", output])).expect(0);
            let id = |line: &str| serde_json::from_str::<Value>(line).unwrap()["id"].clone();
            assert_eq!(read.stdout.lines().map(id).collect::<Vec<_>>(), [1, 2]);
        } else {
            let read = args!["inspect", output, "--from", format, "--json", "--digest", "sha256"];
            let read = run(command(&ferry).args(read)).expect(0);
            assert_eq!(inspected(&read.json()), ferry.tensors(input), "{name}");
        }
        // Run the whole suite across the boundary. The tables of these libraries may be shorter than
        // the current tables.
        let of_format = format!("libferry_{format}.so");
        suite(&ferry, libraries.iter().find(|library| library.ends_with(&of_format)).unwrap(), &output);
    }
    let committed = folder(arch).join("OUTPUTS");
    if std::env::var_os("FERRY_TEST_WRITE_GOLDEN").is_some() {
        std::fs::write(&committed, &outputs).unwrap();
    }
    assert_eq!(outputs, std::fs::read_to_string(&committed).unwrap());
}

#[test]
#[ignore = "converts with libraries that were built earlier"]
fn golden_libraries_write_what_they_always_wrote() {
    let suite = |ferry: &Ferry, library: &Path, sample: &Path| {
        ferry.run(args!["plugin", "test", library, sample]).expect(0).prints(&["conformant: all"]);
    };
    check(std::env::consts::ARCH, |ferry| ferry.command([] as [&str; 0]), suite);
}
