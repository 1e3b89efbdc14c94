//! Tests of formats in C and C++. They are built with the system's compilers and only the header,
//! and are used like any other format.

use crate::outside;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::tempdir;
use tensorferry_tests::ferry::run;
use tensorferry_tests::model::safetensors;
use tensorferry_tests::workspace::{root, workspace};
use tensorferry_tests::{Ferry, args};

/// Builds `third-party/nrrd-c` with these additional flags.
pub(crate) fn nrrd(name: &str, flags: &str) -> PathBuf {
    let out = workspace().target.join("third-party").join(name);
    let mut make = Command::new("make");
    make.arg("-C").arg(outside::folder().join("nrrd-c")).arg(format!("OUT={}", out.display()));
    run(make.arg(format!("CFLAGS=-O2 {flags}"))).expect(0);
    out.join("libferry_nrrd.so")
}

fn ferry_with(library: &Path) -> Ferry {
    let ferry = Ferry::new();
    ferry.add_plugin(library);
    ferry
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn the_header_says_where_everything_lies() {
    let layout = tensorferry_abi::layout();
    let mut text = "#include \"ferry_plugin.h\"\n".to_owned();
    for line in layout.lines() {
        let (what, number) = line.split_once(' ').unwrap();
        let found = match what.split_once('.') {
            Some((structure, field)) => format!("offsetof({structure}, {field})"),
            None => format!("sizeof({what})"),
        };
        writeln!(text, "_Static_assert({found} == {number}, \"{what}\");").unwrap();
    }
    assert!(layout.lines().count() > 200);
    let folder = tempdir().unwrap();
    let file = folder.path().join("layout.c");
    std::fs::write(&file, text).unwrap();
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Werror", "-I"]);
    run(compile.arg(root().join("sdk/abi/include")).arg(file)).expect(0);
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn a_format_in_c_converts_to_and_fro() {
    let ferry = ferry_with(&nrrd("c", ""));
    let check = run(ferry.command(["plugin", "check"]).arg(nrrd("c", "")));
    assert!(check.expect(0).said().contains("ferry-plugin-nrrd"));
    let values: Vec<u8> = (0..24).collect();
    let input = ferry.write("a.safetensors", safetensors(&[("data", "F32", &[2, 3], &values)]));
    let [nrrd, back] = ferry.paths(["a.nrrd", "b.safetensors"]);
    ferry.convert(&input, &nrrd, &["--verify", "--step", "set_metadata:unit,to=mm"]);
    let written = std::fs::read(&nrrd).unwrap();
    let text =
        b"NRRD0004\ntype: float\ndimension: 2\nsizes: 3 2\nencoding: raw\nendian: little\nunit:=mm\n\n";
    assert_eq!(written, [&text[..], &values].concat());
    ferry.convert(&nrrd, &back, &["--verify"]);
    assert_eq!(ferry.inspect(&back)["metadata"]["unit"], "mm");
    let last = ferry.tensors(&back);
    assert_eq!(last, ferry.tensors(&input));
}

/// Tests that header fields become attributes of the tensor. Per-axis numbers are in the order of
/// the tensor's shape.
#[test]
#[ignore = "builds crates out of the workspace"]
fn attributes_go_through_c_and_come_back() {
    let ferry = ferry_with(&nrrd("c", ""));
    let header = "NRRD0004\ntype: uchar\ndimension: 2\nsizes: 3 2\nencoding: raw\nspacings: 0.5 nan\nunits: \"mm\" \"s\"\nspace origin: (0,1)\nunit:=mm\n\nabcdef";
    let input = ferry.write("a.nrrd", header);
    let seen = ferry.inspect(&input);
    assert_eq!(seen["tensors"][0]["attributes"]["spacings"], serde_json::json!(["NaN", 0.5]));
    assert_eq!(seen["tensors"][0]["attributes"]["units"], "\"mm\" \"s\"");
    let [kept, turned, lost] = ferry.paths(["kept.nrrd", "turned.nrrd", "lost.safetensors"]);
    ferry.convert(&input, &kept, &["--strict", "--step", "select:data"]);
    assert_eq!(ferry.inspect(&kept)["tensors"][0]["attributes"], seen["tensors"][0]["attributes"]);
    ferry.run(args!["diff", input, kept]).expect(0);
    ferry.convert(&input, &turned, &["--step", "transpose"]).says(&["attribute", "data: spacings"]);
    assert_eq!(ferry.inspect(&turned)["tensors"][0].get("attributes"), None);
    let different = ferry.run(args!["diff", "--step", "transpose", turned, kept]).expect(1);
    different.prints(&["attribute: \"units\" is nothing in A"]);
    ferry.convert(&input, &lost, &[]).says(&["attribute", "data: space origin", "cannot hold attributes"]);
    let outcome = ferry.try_convert(&input, &lost, &["--force", "--strict"]);
    assert_ne!(outcome.code, Some(0));
    ferry.convert(&input, &lost, &["--force", "--strict", "--allow-loss", "attribute"]);
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn a_manifest_that_speaks_of_a_twin_which_is_not_there_is_refused() {
    let ferry = Ferry::new();
    let source = ferry.write(
        "flagged.c",
        "#include \"ferry_plugin.h\"\n\
         static int32_t init(FerryHost h, FerryRegistrar r, FerryErrorSink e) { (void)h, (void)r, (void)e; return 0; }\n\
         const FerryManifest FERRY_PLUGIN = {.magic = FERRY_MAGIC, .size = sizeof FERRY_PLUGIN, .major = FERRY_MAJOR,\n\
         .flags = 1, .name = \"flagged\", .version = \"1\", .sdk = \"1\", .init = init};\n",
    );
    let library = ferry.at("libferry_flagged.so");
    let mut compile = Command::new("cc");
    compile.args(["-std=c11", "-fPIC", "-shared", "-I"]).arg(root().join("sdk/abi/include"));
    run(compile.arg("-o").arg(&library).arg(source)).expect(0);
    run(ferry.command(["plugin", "check"]).arg(library)).expect(5).says(&["declares a twin"]);
}

/// Tests many threads that call a C plugin at the same time, each with its own format object. They
/// convert a whole folder and run a scan.
#[test]
#[ignore = "builds crates out of the workspace"]
fn the_thread_sanitizer_finds_nothing_in_a_format_in_c() {
    let sanitized = nrrd("c-threads", "-g -fsanitize=thread");
    let runtime = run(Command::new("cc").arg("-print-file-name=libtsan.so")).expect(0).stdout;
    let runtime = runtime.trim();
    assert!(Path::new(runtime).is_absolute(), "the compiler has no ThreadSanitizer: {runtime}");
    let folder = tempdir().unwrap();
    let header = root().join("sdk/abi/include");
    let program = folder.path().join("threads");
    let mut compile = Command::new("cc");
    compile
        .args([
            "-std=c11",
            "-g",
            "-O1",
            "-fsanitize=thread",
            "-Wall",
            "-Wextra",
            "-Wno-missing-field-initializers",
            "-Werror",
            "-I",
        ])
        .arg(header);
    compile
        .arg("-o")
        .arg(&program)
        .arg(outside::folder().join("nrrd-c/threads.c"))
        .args(["-ldl", "-lpthread"]);
    run(&mut compile).expect(0);
    let outcome =
        run(Command::new(&program).arg(&sanitized).env("TSAN_OPTIONS", "halt_on_error=1")).expect(0);
    assert!(outcome.stdout.contains("read 8000 times by 8 threads"), "{outcome}");
    assert!(!outcome.stderr.contains("ThreadSanitizer"), "{outcome}");
}

/// Tests that the log message of a library that is opened is printed once, even if the format is
/// specified and therefore not probed.
#[test]
#[ignore = "builds crates out of the workspace"]
fn what_c_says_when_it_is_opened_arrives_once() {
    let line = "plugin ferry-plugin-nrrd: built for revision 1.7, and this ferry has 1.0";
    let values: Vec<u8> = (0..24).collect();
    let file = safetensors(&[("data", "F32", &[2, 3], &values)]);
    let newer = nrrd("c-newer", "-DNRRD_MINOR=7");
    let steps: [&[&str]; 4] = [
        &["in.safetensors", "a.nrrd"],
        &["a.nrrd", "b.nrrd"],
        &["a.nrrd", "c.safetensors", "--from", "nrrd"],
        &["a.nrrd", "d.safetensors"],
    ];
    for (library, times) in [(newer, 1), (nrrd("c", ""), 0)] {
        let ferry = ferry_with(&library);
        ferry.write("in.safetensors", &file);
        for step in steps {
            let mut command = ferry.command(["convert"]);
            let outcome = run(command.args(step).current_dir(ferry.home())).expect(0);
            assert_eq!(outcome.stderr.matches(line).count(), times, "{step:?}: {outcome}");
        }
        let outcome = ferry.run(args!["convert", ferry.at("a.nrrd"), ferry.at("e.pt"), "--json"]).expect(0);
        let report: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        let notes = report["notes"].as_array().unwrap();
        assert_eq!(notes.iter().filter(|note| note.as_str() == Some(line)).count(), times, "{outcome}");
    }
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn what_c_says_of_a_file_arrives() {
    let ferry = ferry_with(&nrrd("c", ""));
    let big = b"NRRD0001\n# a comment\ntype: short\ndimension: 1\nsizes: 2\nspacings: 1.5\nencoding: raw\nendian: big\n\n\x01\x02\x03\x04";
    let out = ferry.at("out.safetensors");
    ferry.convert(&ferry.write("big.nrrd", big), &out, &[]).says(&["spacings"]);
    assert!(std::fs::read(&out).unwrap().ends_with(&[2, 1, 4, 3]));
    let refused: [(&str, &[u8], &[&str]); 6] = [
        (
            "gzip",
            b"NRRD0004\ntype: float\ndimension: 1\nsizes: 1\nencoding: gzip\n\nabcd",
            &["only the encoding raw", "gzip"],
        ),
        (
            "block",
            b"NRRD0004\ntype: block\ndimension: 1\nsizes: 1\nencoding: raw\n\nabcd",
            &["unsupported type", "block"],
        ),
        ("long", b"NRRD0004\ntype: float\ndimension: 1\nsizes: 9\nencoding: raw\n\nabcd", &["data"]),
        (
            "rank",
            b"NRRD0004\ntype: float\ndimension: 2\nsizes: 9\nencoding: raw\n\nabcd",
            &["header is incomplete"],
        ),
        ("endless", b"NRRD0004\ntype: float\ndimension: 1\nsizes: 1\nencoding: raw", &["empty line"]),
        ("text", b"NRRD0004\ntype: \xff\ndimension: 1\nsizes: 1\nencoding: raw\n\nabcd", &["not UTF-8"]),
    ];
    for (name, bytes, says) in refused {
        let input = ferry.write(&format!("{name}.nrrd"), bytes);
        let outcome = ferry.try_convert(&input, &out, &["--force"]);
        assert_eq!(outcome.code, Some(3), "{name}: {outcome}");
        outcome.says(says);
    }
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn what_is_thrown_in_cpp_is_an_error() {
    let library = crate::exceptions::library("throws");
    let ferry = ferry_with(&library);
    let out = ferry.at("out.safetensors");
    for (name, says) in [("text", "thrown while text.throws was read"), ("number", "not a std::exception")] {
        let input = ferry.write(&format!("{name}.throws"), format!("THROWS a {name}"));
        let outcome = ferry.try_convert(&input, &out, &[]);
        assert_eq!(outcome.code, Some(5), "{outcome}");
        outcome.says(&["plugin throws", says]);
        assert!(!out.exists());
    }
}

#[test]
#[ignore = "builds crates out of the workspace"]
fn the_sanitizers_find_nothing_in_a_format_in_c() {
    let sanitized = nrrd("c-sanitized", "-g -fsanitize=address,undefined -fno-sanitize-recover=all");
    let runtime = run(Command::new("cc").arg("-print-file-name=libasan.so")).expect(0).stdout;
    let runtime = runtime.trim();
    assert!(Path::new(runtime).is_absolute(), "the compiler has no AddressSanitizer: {runtime}");
    let ferry = ferry_with(&sanitized);
    let input = ferry
        .write("a.safetensors", safetensors(&[("x", "U8", &[2, 2], &[1, 2, 3, 4]), ("y", "I64", &[0], &[])]));
    let [nrrd, back] = ferry.paths(["a.nrrd", "b.safetensors"]);
    let hostile = ferry.write(
        "hostile.nrrd",
        b"NRRD0004\ntype: float\ndimension: 16\nsizes: 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7 8 9\n\n",
    );
    for (code, from, to) in [(0, &input, &nrrd), (0, &nrrd, &back), (3, &hostile, &back)] {
        let mut command = ferry.command(["convert", "--force"]);
        command.arg(from).arg(to).env("LD_PRELOAD", runtime).env("ASAN_OPTIONS", "detect_leaks=0");
        let outcome = run(&mut command);
        assert_eq!(outcome.code, Some(code), "{outcome}");
        assert!(
            !outcome.stderr.contains("Sanitizer") && !outcome.stderr.contains("runtime error"),
            "{outcome}"
        );
    }
}
