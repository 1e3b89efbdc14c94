//! Tests a C plugin that violates one rule at a time, as authors might by mistake. Each violation
//! must be reported with a message that identifies the mistake. No sanitizer may find a fault, and
//! no output may be written.

use crate::outside;
use std::path::{Path, PathBuf};
use std::process::Command;
use tensorferry_tests::ferry::run;
use tensorferry_tests::workspace::{root, workspace};
use tensorferry_tests::{Ferry, Outcome, args};

/// Builds `third-party/lies-c` with these flags.
fn library(name: &str, flags: &[&str]) -> PathBuf {
    let folder = workspace().target.join("third-party").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let library = folder.join("libferry_lies.so");
    let mut compile = Command::new("cc");
    compile.args([
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Wno-missing-field-initializers",
        "-Werror",
        "-fPIC",
        "-fvisibility=hidden",
        "-shared",
        "-g",
        "-O1",
    ]);
    compile.args(flags).arg("-I").arg(root().join("sdk/abi/include")).arg("-o").arg(&library);
    run(compile.arg(outside::folder().join("lies-c/lies.c")).arg("-lpthread")).expect(0);
    library
}

/// Returns the runtime of a sanitizer, which must be loaded first.
fn runtime(name: &str) -> String {
    let path = run(Command::new("cc").arg(format!("-print-file-name={name}"))).expect(0).stdout;
    let path = path.trim();
    assert!(Path::new(path).is_absolute(), "the compiler has no {name}: {path}");
    path.to_owned()
}

struct Liar {
    ferry: Ferry,
    library: PathBuf,
    runtime: String,
}

impl Liar {
    fn new() -> Self {
        let flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];
        let library = library("lies", &flags);
        let ferry = Ferry::new();
        ferry.add_plugin(&library);
        ferry.write("in.lies", "LIESabcd");
        ferry.write("in.lies-rows", "ROWS");
        let liar = Self { ferry, library, runtime: runtime("libasan.so") };
        for input in ["in.lies", "in.lies-rows"] {
            let outcome = liar.convert("", input);
            assert_eq!(outcome.code, Some(0), "without a request, the plugin works: {outcome}");
        }
        liar
    }

    fn run(&self, lie: &str, command: &mut Command) -> Outcome {
        command.env("FERRY_LIE", lie).env("LD_PRELOAD", &self.runtime).env("ASAN_OPTIONS", "detect_leaks=0");
        let outcome = run(command);
        let said = outcome.said();
        assert!(!said.contains("Sanitizer") && !said.contains("runtime error"), "{lie}: {outcome}");
        assert!(
            !said.contains("panicked at") && said.len() < 3000,
            "{lie}: the reason is too long: {outcome}"
        );
        outcome
    }

    fn convert(&self, lie: &str, input: &str) -> Outcome {
        let output = self.ferry.at(if input == "in.lies" { "out.safetensors" } else { "out.parquet" });
        let input = self.ferry.at(input);
        let outcome = self.run(lie, &mut self.ferry.command(args!["convert", input, output]));
        // The output exists only if the program succeeds. A failed destructor also prevents the
        // output, because a reader is dropped before the output becomes visible.
        assert_eq!(output.exists(), outcome.code == Some(0), "{lie}: {outcome}");
        let _ = std::fs::remove_file(output);
        outcome
    }
}

/// Checks the exit code and the messages for a violation.
fn is_told(lie: &str, outcome: &Outcome, code: i32, says: &[&str]) {
    assert_eq!(outcome.code, Some(code), "{lie}: {outcome}");
    for part in says {
        assert!(outcome.said().contains(part), "{lie}: {part:?} is not in {outcome}");
    }
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn what_a_library_says_of_itself_is_looked_at() {
    let liar = Liar::new();
    let cases: &[(&str, &[&str])] = &[
        ("id", &["a text is not valid UTF-8"]),
        ("id-slash", &["invalid format id", "lowercase letters, digits and dashes", "a/b"]),
        ("identity-size", &["FerryIdentity is too short", "`size`", "expected at least 56 bytes", "found 0"]),
        ("no-identity", &["invalid format id"]),
        ("flag", &["a flag is neither 0 nor 1"]),
        ("table-null", &["FerryObjectTable is null"]),
        ("table-size", &["FerryObjectTable is too short", "`size`", "found 0"]),
        ("table-half", &["FerryFormatTable is too short", "`size`", "found 36"]),
        ("describe-null", &["Format.describe is not offered", "null"]),
        ("kind", &["does not accept \"step\" from a plugin"]),
    ];
    for &(lie, says) in cases {
        let outcome = liar.run(lie, &mut liar.ferry.command(args!["plugin", "check", liar.library]));
        is_told(lie, &outcome, 5, says);
    }
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn what_a_reader_says_is_looked_at() {
    let liar = Liar::new();
    let cases: &[(&str, &str, i32, &[&str])] = &[
        ("threads", "in.lies", 0, &[]),
        ("encoded", "in.lies", 0, &[]),
        ("decode-short", "in.lies", 5, &["decode returned"]),
        ("no-reason", "in.lies", 5, &["gave no reason"]),
        ("no-class", "in.lies", 5, &["the unknown status 1"]),
        ("negative", "in.lies", 5, &["the unknown status -1"]),
        ("past-the-end", "in.lies", 3, &["ends too early"]),
        ("storage-kind", "in.lies", 3, &["4711"]),
        ("storage-size", "in.lies", 5, &["FerryStorage is too short", "found 0"]),
        ("file", "in.lies", 5, &["not been opened", "4711"]),
        ("dtype-bytes", "in.lies", 5, &["U8"]),
        ("dtype-name", "in.lies", 5, &["UTF-8"]),
        ("dtype-unknown", "in.lies", 5, &["4711"]),
        ("tensor-name", "in.lies", 5, &["UTF-8"]),
        ("tensor-nowhere", "in.lies", 5, &["the pointer of a slice is invalid"]),
        ("tensor-null", "in.lies", 5, &["FerryTensor is null"]),
        ("shape-nowhere", "in.lies", 5, &["the pointer of a slice is invalid"]),
        ("shape-endless", "in.lies", 5, &["the pointer of a slice is invalid"]),
        ("shape-huge", "in.lies", 3, &["\"t\""]),
        ("storage-unknown", "in.lies", 5, &["4711"]),
        ("twice", "in.lies", 3, &["\"t\""]),
        // A call that the host rejected does not change the catalog.
        ("swallows", "in.lies", 0, &[]),
        ("slot-null", "in.lies", 3, &["ferry-plugin-lies", "Format.tensor_reader is not offered", "null"]),
        ("decoder-null", "in.lies", 5, &["FerryTensorDecoderTable is null"]),
        ("decoder-size", "in.lies", 5, &["FerryTensorDecoderTable is too short", "found 8"]),
        ("read-null", "in.lies", 3, &["TensorReader.read is not offered"]),
        ("reader-null", "in.lies-rows", 5, &["FerryRecordReaderTable is null"]),
        ("schema-format", "in.lies-rows", 5, &["invalid Arrow schema"]),
        ("schema-name", "in.lies-rows", 5, &["the name of a column is not UTF-8"]),
        ("schema-no-struct", "in.lies-rows", 5, &["schema"]),
        ("schema-released", "in.lies-rows", 5, &["the schema was already released"]),
        ("split-size", "in.lies-rows", 5, &["FerrySplit is too short"]),
        ("split-rows", "in.lies-rows", 5, &["rows"]),
        ("stream-released", "in.lies-rows", 5, &["the stream was already released"]),
        ("stream-null", "in.lies-rows", 5, &["get_next of the stream is null"]),
        ("stream-schema-fails", "in.lies-rows", 5, &["the stream has no schema", "code 5"]),
        ("stream-fails", "in.lies-rows", 3, &["the stream says why"]),
        ("array-children", "in.lies-rows", 5, &["number of children", "expected 1", "found 0"]),
        ("array-buffers", "in.lies-rows", 5, &["buffers of an array are missing", "expected 2", "found 1"]),
        ("drop-fails", "in.lies-rows", 5, &["gave no reason"]),
    ];
    for (lie, input, code, says) in cases {
        is_told(lie, &liar.convert(lie, input), *code, says);
    }
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn of_two_formats_of_one_id_the_first_stays() {
    let liar = Liar::new();
    let outcome = liar.run("id-twice", &mut liar.ferry.command(args!["plugin", "check", liar.library]));
    is_told("id-twice", &outcome, 0, &["format lies is already registered", "this one is left out"]);
}

/// Tests that the conformance suite finds endless streams and invalid text in rows. A conversion
/// does not find them, because it does not check every value.
#[test]
#[ignore = "builds crates out of the workspace"]
fn what_a_conversion_cannot_see_is_found_by_the_suite() {
    let liar = Liar::new();
    let sample = liar.ferry.at("in.lies-rows");
    for (lie, rule) in [("stream-endless", "BROKEN  S3"), ("array-text", "BROKEN  S32")] {
        let mut command = liar.ferry.command(args!["plugin", "test", liar.library, sample]);
        command.env("FERRY_LIE", lie).env("LD_PRELOAD", &liar.runtime).env("ASAN_OPTIONS", "detect_leaks=0");
        run(&mut command).expect(1).prints(&[rule]);
    }
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn a_library_for_a_later_revision_is_refused_with_both_numbers() {
    let ferry = Ferry::new();
    let library = library("lies-later", &["-DNEEDS_MINOR=4711"]);
    let outcome = ferry.run(args!["plugin", "check", library]);
    is_told("minor", &outcome, 5, &["1.4711", "1.0", "newer ferry"]);
}

/// Tests manifests without fields that authors may forget.
#[test]
#[ignore = "builds crates out of the workspace"]
fn a_manifest_that_is_none_is_told_with_what_it_lacks() {
    let ferry = Ferry::new();
    let size = "must say its size in bytes: expected at least 176, found";
    for (name, flag, says) in [
        ("magic", "-DMAGIC=\"FERRY\"", "does not begin with its magic, FERRY_MAGIC"),
        ("size", "-DSIZE=0", &*format!("{size} 0")),
        ("size-of-older", "-DSIZE=120", &*format!("{size} 120")),
        ("init", "-DINIT=NULL", "has no init"),
        ("hidden", "-DVISIBILITY=\"hidden\"", "it exports no symbol FERRY_PLUGIN"),
    ] {
        let library = library(&format!("lies-manifest-{name}"), &[flag, "-Wno-error"]);
        for command in ["check", "install"] {
            let outcome = ferry.run(args!["plugin", command, library]);
            is_told(name, &outcome, 5, &["not a plugin", says]);
        }
    }
}

/// Tests that threads that the plugin starts may call the host's objects.
#[test]
#[ignore = "builds crates out of the workspace"]
fn threads_of_the_plugins_own_may_read_while_a_call_runs() {
    let ferry = Ferry::new();
    ferry.add_plugin(&library("lies-threads", &["-fsanitize=thread"]));
    let input = ferry.write("in.lies", "LIESabcd");
    let mut command = ferry.command(args!["convert", input, ferry.at("out.safetensors")]);
    command
        .env("FERRY_LIE", "threads")
        .env("LD_PRELOAD", runtime("libtsan.so"))
        .env("TSAN_OPTIONS", "halt_on_error=1:ignore_noninstrumented_modules=1");
    let outcome = run(&mut command).expect(0);
    assert!(!outcome.stderr.contains("ThreadSanitizer"), "{outcome}");
}
