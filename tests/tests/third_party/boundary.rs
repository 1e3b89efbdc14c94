//! Tests of the plugin boundary. They cover libraries that must be rejected with a specific reason,
//! older and newer libraries that must work, and a plugin that violates its contract in every
//! function.

use crate::copies::{self, Copy};
use crate::outside;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::tempdir;
use tensorferry_tests::ferry::run;
use tensorferry_tests::files::names_in;
use tensorferry_tests::model::safetensors;
use tensorferry_tests::workspace::workspace;
use tensorferry_tests::{Ferry, Outcome, args};

/// Checks that `plugin check` rejects the library with a reason that contains all of `parts`.
fn refused(library: &Path, request: &str, parts: &[&str]) {
    let ferry = Ferry::new();
    let mut command = ferry.command(args!["plugin", "check", library]);
    let outcome = run(command.env("FERRY_MISBEHAVE", request)).expect(5);
    for part in parts {
        assert!(outcome.said().contains(part), "{part:?} is not in {outcome}");
    }
    assert!(outcome.said().len() < 2000, "the reason is too long: {outcome}");
    no_raw_panic(&outcome);

    // In a plugin folder, the rejected library does not affect other plugins.
    ferry.add_plugin(library);
    let list = run(ferry.command(["plugin", "list"]).env("FERRY_MISBEHAVE", request));
    assert!(list.said().contains(parts[0]), "{:?} is not in {list}", parts[0]);
    let formats = run(ferry.command(["formats"]).env("FERRY_MISBEHAVE", request)).expect(0);
    assert!(formats.stdout.contains("safetensors"), "{formats}");
}

fn no_raw_panic(outcome: &Outcome) {
    let text = outcome.said();
    assert!(!text.contains("panicked at") && !text.contains("RUST_BACKTRACE"), "a raw panic: {outcome}");
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn a_library_that_is_no_plugin_is_refused() {
    refused(&outside::library("not-a-plugin"), "", &["not a plugin", "FERRY_PLUGIN"]);
    let folder = tempdir().unwrap();
    let text = folder.path().join(format!("libferry_text.{}", std::env::consts::DLL_EXTENSION));
    std::fs::write(&text, "not a library at all").unwrap();
    refused(&text, "", &["cannot be opened"]);
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn another_revision_is_refused_with_both_numbers() {
    let ours = copies::version();
    for (name, version, found) in [("older_revision", "0.2.0", "0.2"), ("newer_revision", "2.0.0", "2.0")] {
        let library = Copy::of_sdk(name).version(version).plugin();
        refused(&library, "", &["revision", found, &ours]);
    }
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn a_changed_layout_is_refused_with_the_place() {
    let changes = [
        ("sdk/abi/src/boundary.rs", "-> (score: i64);", "-> (score: u64);"),
        ("sdk/src/mirror/format.rs", "Result<i64, Failure>", "Result<u64, Failure>"),
        (
            "sdk/src/mirror/format.rs",
            "map_or(-1, |score| i64::from(score.0))",
            "map_or(0, |score| u64::from(score.0))",
        ),
    ];
    let library = Copy::of_sdk("changed_layout").patched(&changes).plugin();
    refused(&library, "", &["layout", "probe", "i64", "u64"]);
}

/// Tests libraries whose tables differ in more than additions at the end. Each entry contains a
/// change, and the words that the refusal must contain.
#[test]
#[ignore = "builds crates out of the workspace"]
fn each_mutant_is_refused_with_the_fields_path() {
    let boundary = "sdk/abi/src/boundary.rs";
    let mutants: [(&str, &[(&str, &str, &str)], &[&str]); 4] = [
        (
            "reordered",
            &[(
                boundary,
                "        open(name: Text) -> (file: u32);\n        /// Returns whether the input contains a file with this name.\n        exists(name: Text) -> (exists: Flag);\n",
                "        exists(name: Text) -> (exists: Flag);\n        open(name: Text) -> (file: u32);\n",
            )],
            &["layout", "open"],
        ),
        (
            "renamed",
            &[(boundary, "list(prefix: Text, names: NameSink);", "list(begins: Text, names: NameSink);")],
            &["layout", "list"],
        ),
        (
            "grown",
            &[
                (
                    "sdk/abi/src/data.rs",
                    "            len: usize,\n        }\n\n        impl Plain",
                    "            len: usize,\n            more: usize,\n        }\n\n        impl Plain",
                ),
                (
                    "sdk/abi/src/data.rs",
                    "Self { ptr: seen.as_ptr(), len: seen.len() }",
                    "Self { ptr: seen.as_ptr(), len: seen.len(), more: 0 }",
                ),
            ],
            &["layout"],
        ),
        (
            "last_moved",
            &[(
                boundary,
                "        record_reader(options: Pairs) -> (reader: Given<RecordReader>);\n        /// Creates a writer of rows with these options.\n        record_writer(options: Pairs) -> (writer: Given<RecordWriter>);\n",
                "        record_writer(options: Pairs) -> (writer: Given<RecordWriter>);\n        record_reader(options: Pairs) -> (reader: Given<RecordReader>);\n",
            )],
            &["layout", "record_"],
        ),
    ];
    for (name, changes, parts) in mutants {
        refused(&Copy::of_sdk(name).patched(changes).plugin(), "", parts);
    }
}

/// Tests libraries whose manifest does not match its twin, which is the table of the functions that
/// are called. The host compares the twin with its own tables.
#[test]
#[ignore = "builds crates out of the workspace"]
fn a_manifest_and_a_twin_that_do_not_go_together_are_refused() {
    let lie = "unsafe extern \"C\" fn lie(_: Host, _: Registrar, _: ErrorSink) -> i32 {\n    0\n}\n\nstruct Make<L>";
    let lies = Copy::of_sdk("lying_twin").patched(&[
        ("sdk/abi/src/twin.rs", "struct Make<L>", lie),
        ("sdk/abi/src/twin.rs", "Twin { init: init::<L>,", "Twin { init: lie,"),
    ]);
    refused(&lies.plugin(), "", &["layout", "different init"]);
    let silent =
        Copy::of_sdk("silent_twin").patched(&[("sdk/abi/src/manifest.rs", "flags: HAS_TWIN,", "flags: 0,")]);
    refused(&silent.plugin(), "", &["layout", "does not declare"]);
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn an_init_that_fails_is_refused_with_its_reason() {
    let library = outside::library("misbehave");
    refused(&library, "init", &["init failed", "asked not to start"]);
    refused(&library, "init-panic", &["init failed", "panicked in init", "asked to panic"]);
    refused(&library, "describe", &["init failed", "panicked in Format.describe", "asked to panic"]);
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn an_init_that_never_returns_is_quarantined_and_the_rest_goes_on() {
    for (request, how) in [("init-abort", "signal 6"), ("init-loop", "did not return within 10 s")] {
        let ferry = Ferry::new();
        let library = own_copy(&ferry, &outside::library("misbehave"));
        let input = ferry.safetensors("in.safetensors", &[("a", "U8", &[3], b"abc")]);
        let output = ferry.at("out.pt");
        let convert = || ferry.command(args!["convert", "--force", input, output]);
        run(convert().env("FERRY_MISBEHAVE", request)).expect(0).says(&[
            "libferry_misbehave",
            "quarantined",
            how,
        ]);
        // Without the fault, the library would work, but it is still quarantined and is not opened.
        let again = run(&mut convert()).expect(0);
        assert!(!again.stderr.contains("quarantined"), "{again}");
        ferry.run(["plugin", "list"]).expect(0).prints(&["libferry_misbehave", "quarantined", how]);
        let formats = ferry.run(["formats"]).expect(0);
        assert!(formats.stdout.contains("torch") && !formats.stdout.contains("misbehave"), "{formats}");
        ferry.run(args!["plugin", "check", library]).expect(0).prints(&[NAME]);
        ferry.run(["formats"]).expect(0).prints(&["misbehave"]);
    }
}

/// Copies a plugin, so that no other test creates hard links to it. A new link changes the
/// timestamp that identifies a file, and a file with a recent timestamp is checked again.
fn own_copy(ferry: &Ferry, built: &Path) -> PathBuf {
    let library = ferry.plugin_folder().join(built.file_name().unwrap());
    std::fs::copy(built, &library).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    library
}

/// Tests a library that behaves differently when it is inspected and when it is used.
#[test]
#[ignore = "builds crates out of the workspace"]
fn a_library_that_fails_when_it_is_used_is_an_error_with_its_name() {
    let ferry = Ferry::new();
    own_copy(&ferry, &outside::library("misbehave"));
    let input = ferry.write("in.misbehave", b"MISBEHAVEsome bytes");
    let output = ferry.at("out.safetensors");
    ferry.convert(&input, &output, &[]);
    let arguments = args!["convert", "--force", "--from", "misbehave", input, output];
    run(ferry.command(arguments).env("FERRY_MISBEHAVE", "init")).expect(5).says(&[
        NAME,
        "init failed",
        "asked not to start",
        "libferry_misbehave",
    ]);
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn a_probe_that_panics_is_a_note_where_another_format_fits() {
    let ferry = Ferry::new();
    ferry.add_plugin(&outside::library("misbehave"));
    let input = ferry.safetensors("in.misbehave", &[("a", "U8", &[3], b"abc")]);
    let output = ferry.at("out.pt");
    let outcome =
        run(ferry.command(args!["convert", input, output]).env("FERRY_MISBEHAVE", "probe")).expect(0);
    outcome.clone().says(&["note", NAME, "panicked in Format.probe", "asked to panic"]);
    assert_eq!(outcome.stderr.matches("panicked in Format.probe").count(), 1, "{outcome}");
}

/// An addition to the ABI, which is a slot at the end of a table on each side. Titles and notes in
/// the output show whether the other side has the slot.
const ADDITION: [(&str, &str, &str); 6] = [
    (
        "sdk/abi/src/boundary.rs",
        "record_writer(options: Pairs) -> (writer: Given<RecordWriter>);\n    }",
        "record_writer(options: Pairs) -> (writer: Given<RecordWriter>);\n    } then {\n        newer() -> (number: u32);\n    }",
    ),
    (
        "sdk/abi/src/boundary.rs",
        "sidecar(name: Text, bytes: Bytes);\n",
        "sidecar(name: Text, bytes: Bytes);\n        newer() -> (number: u32);\n",
    ),
    (
        "sdk/src/mirror/format.rs",
        "impl FormatCalls for LentFormat {",
        "impl FormatCalls for LentFormat {\n    fn newer(&self) -> Result<u32, Failure> {\n        Ok(7)\n    }",
    ),
    (
        "sdk/src/mirror/format.rs",
        "        let description = lent.0;",
        "        let mut description = lent.0;\n        description.title += &format!(\" (format {})\", object.newer().unwrap_or(0));",
    ),
    (
        "sdk/src/mirror/catalog_sink.rs",
        "impl CatalogSinkCalls for LentCatalogSink<'_> {",
        "impl CatalogSinkCalls for LentCatalogSink<'_> {\n    fn newer(&mut self) -> Result<u32, Failure> {\n        Ok(9)\n    }",
    ),
    (
        "sdk/src/mirror/reader.rs",
        "        let decoder = self.0.read(",
        "        context.note(&format!(\"catalog {}\", catalog.newer().unwrap_or(0)));\n        let decoder = self.0.read(",
    ),
];

/// Tests the current program with a plugin of a later minor revision, and the current plugin with a
/// program of a later minor revision.
#[test]
#[ignore = "builds crates out of the workspace"]
fn older_and_newer_plugins_work_in_newer_and_older_hosts() {
    let newer = Copy::with_host("newer").version(&copies::next_version()).patched(&ADDITION);
    let (newer_plugin, newer_program) = (newer.plugin(), newer.program());
    let this_plugin = outside::library("trial");
    let this_program = &workspace().program;

    // Each row contains the program, the plugin, and the new functions that ran in the plugin's
    // format and in the host's catalog.
    let pairs: [(&Path, &Path, &str, Option<&str>); 4] = [
        (this_program, &this_plugin, "trial of the plugin interface", None),
        (this_program, &newer_plugin, "trial of the plugin interface", Some("catalog 0")),
        (&newer_program, &this_plugin, "trial of the plugin interface (format 0)", None),
        (&newer_program, &newer_plugin, "trial of the plugin interface (format 7)", Some("catalog 9")),
    ];
    for (program, plugin, title, note) in pairs {
        let ferry = Ferry::with_plugins(&[workspace().formats.as_path(), plugin]);
        let start = |arguments: &[&OsStr]| {
            let mut command = Command::new(program);
            command.arg("--plugin-dir").arg(ferry.plugin_folder()).args(arguments);
            run(command.env_remove("FERRY_PLUGIN_PATH")).expect(0)
        };
        let check = start(&args!["plugin", "check", plugin]);
        assert!(check.said().contains("ferry-plugin-trial"), "{check}");
        let formats = start(&args!["formats", "--json"]);
        assert!(formats.stdout.contains(&format!("{title:?}")), "{title:?} is not in {formats}");

        let folder = tempdir().unwrap();
        let [input, middle, back] =
            ["a.safetensors", "a.trial", "b.safetensors"].map(|name| folder.path().join(name));
        std::fs::write(&input, safetensors(&[("x", "F32", &[2, 3], &[7; 24])])).unwrap();
        start(&args!["convert", input, middle, "-o", "data=encode"]);
        let last = start(&args!["convert", middle, back, "--verify"]);
        if let Some(note) = note {
            assert!(last.said().contains(note), "{note:?} is not in {last}");
        }
        start(&args!["diff", input, back]);
        // Run the whole suite across the boundary, where the tables of one side are longer.
        start(&args!["plugin", "test", plugin, outside::sample()]).prints(&["conformant: all"]);
    }

    // Regardless of the loading order, the check of one library must not affect the next one.
    let all = Ferry::with_plugins(&[&this_plugin, &newer_plugin, &outside::library("rows")]);
    for program in [this_program, &newer_program] {
        let list =
            run(Command::new(program).args(["plugin", "list"]).env("FERRY_PLUGIN_PATH", all.plugin_folder()));
        assert!(!list.said().contains("layout"), "{list}");
        let here = all.plugin_folder().to_str().unwrap();
        let loaded =
            list.stdout.lines().filter(|line| line.starts_with("ferry-plugin-trial") && line.contains(here));
        assert_eq!(loaded.count(), 2, "{list}");
    }
}

/// A request to the misbehaving plugin, and what the program must report.
struct Fault {
    request: &'static str,
    code: i32,
    says: &'static [&'static str],
}

const fn panics(request: &'static str, says: &'static [&'static str]) -> Fault {
    Fault { request, code: 5, says }
}

/// Runs a conversion with the misbehaving plugin, and expects the fault's exit code and words, and
/// no output.
fn misbehaves(fault: &Fault, input: &str, output: &str) {
    let ferry = Ferry::new();
    ferry.add_plugin(&outside::library("misbehave"));
    let folder = tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("in.misbehave"), b"MISBEHAVEsome bytes").unwrap();
    std::fs::write(
        path("in.safetensors"),
        safetensors(&[("a", "U8", &[3], b"abc"), ("b", "U8", &[2], b"de")]),
    )
    .unwrap();
    let before = names_in(folder.path());

    let arguments = ["convert".into(), path(input), path(output)];
    run(&mut ferry.command(&arguments)).expect(0);
    std::fs::remove_file(path(output)).unwrap();

    let outcome = run(ferry.command(&arguments).env("FERRY_MISBEHAVE", fault.request));
    assert_eq!(outcome.code, Some(fault.code), "{}: {outcome}", fault.request);
    for part in fault.says {
        assert!(outcome.stderr.contains(part), "{}: {part:?} is not in {outcome}", fault.request);
    }
    no_raw_panic(&outcome);
    assert_eq!(names_in(folder.path()), before, "{}: {outcome}", fault.request);
}

const NAME: &str = "ferry-plugin-misbehave";

#[test]
#[ignore = "builds crates out of the workspace"]
fn a_panicking_reader_is_an_error_with_its_name_and_the_place() {
    let faults = [
        panics("probe", &[NAME, "panicked in Format.probe", "asked to panic"]),
        panics("reader", &[NAME, "panicked in Format.tensor_reader", "asked to panic"]),
        panics("read", &[NAME, "panicked in TensorReader.read:", "asked to panic"]),
        panics("decode", &[NAME, "panicked in TensorDecoder.decode", "asked to panic"]),
        panics("drop-reader", &[NAME, "panicked in drop", "drop-reader"]),
    ];
    for fault in &faults {
        misbehaves(fault, "in.misbehave", "out.safetensors");
    }
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn a_panicking_writer_is_an_error_with_its_name_and_the_place() {
    let faults = [
        panics("writer", &[NAME, "panicked in Format.tensor_writer", "asked to panic"]),
        panics("plan", &[NAME, "panicked in TensorWriter.plan", "asked to panic"]),
        panics("stream", &[NAME, "panicked in TensorPlan.stream", "asked to panic"]),
        panics("encode", &[NAME, "panicked in TensorPlan.encode", "asked to panic", "out.misbehave"]),
        panics("seal", &[NAME, "panicked in TensorPlan.seal", "asked to panic"]),
        panics("drop-writer", &[NAME, "panicked in drop", "drop-writer"]),
        panics("drop-plan", &[NAME, "panicked in drop", "drop-plan"]),
    ];
    for fault in &faults {
        misbehaves(fault, "in.safetensors", "out.misbehave");
    }
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn a_reader_that_lies_is_found_out() {
    let faults = [
        Fault { request: "extent", code: 3, says: &["ends too early", "in.misbehave"] },
        Fault { request: "decode-short", code: 5, says: &[NAME, "decode returned", "in.misbehave"] },
        Fault { request: "decode-long", code: 5, says: &[NAME, "decode returned", "in.misbehave"] },
    ];
    for fault in &faults {
        misbehaves(fault, "in.misbehave", "out.safetensors");
    }
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn a_writer_that_lies_is_found_out() {
    let faults = [
        Fault { request: "left-out", code: 5, says: &[NAME, "leaves a tensor out", "\"a\""] },
        Fault {
            request: "encode-short",
            code: 5,
            says: &[NAME, "encoded segment 1 has a different length", "\"b\"", "expected 2", "found 1"],
        },
        Fault {
            request: "encode-long",
            code: 5,
            says: &[NAME, "encoded segment 1 has a different length", "\"b\"", "expected 2", "found 3"],
        },
        Fault { request: "deferred", code: 5, says: &[NAME, "deferred bytes", "expected 9", "found 10"] },
    ];
    for fault in &faults {
        misbehaves(fault, "in.safetensors", "out.misbehave");
    }
}

/// Tests a destructor that panics at the end of the program. The panic must not change the result
/// or crash the program.
#[test]
#[ignore = "builds crates out of the workspace"]
fn a_panic_in_a_formats_destructor_ends_nothing() {
    let ferry = Ferry::new();
    ferry.add_plugin(&outside::library("misbehave"));
    let outcome = run(ferry.command(["formats"]).env("FERRY_MISBEHAVE", "drop-format"));
    assert!(matches!(outcome.code, Some(0 | 5)), "{outcome}");
    no_raw_panic(&outcome);
}
