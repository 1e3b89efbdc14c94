//! Tests that pipes, sockets and devices in place of files do not block the program.

use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use tensorferry_tests::files::files_below;
use tensorferry_tests::{Ferry, args};

fn pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Checks that a command refuses an input. `run_bounded` kills commands that hang.
fn refused(ferry: &Ferry, command: &str, input: &Path, options: &[&str]) {
    let mut arguments: Vec<&std::ffi::OsStr> = vec![command.as_ref(), input.as_ref()];
    arguments.extend(options.iter().map(std::ffi::OsStr::new));
    let outcome = ferry.run_bounded(&arguments);
    assert!(matches!(outcome.code, Some(2 | 3)), "{outcome}");
    let said = outcome.said();
    assert!(said.contains("regular file") || said.contains("part of a cycle"), "{said}");
}

#[test]
fn inputs_and_parts_of_them_are_regular_files() {
    for name in ["m.safetensors", "m.pt", "m.tfrecord", "m.parquet", "m.jsonl", "m.index", "m.pb"] {
        let ferry = Ferry::new();
        let input = ferry.at(name);
        pipe(&input);
        refused(&ferry, "inspect", &input, &[]);
        refused(&ferry, "convert", &input, &[ferry.at("out.safetensors").to_str().unwrap()]);
    }
    let ferry = Ferry::new();
    let _socket = UnixListener::bind(ferry.at("socket.pt")).unwrap();
    refused(&ferry, "inspect", &ferry.at("socket.pt"), &[]);
    symlink(ferry.at("loop.pt"), ferry.at("loop.pt")).unwrap();
    refused(&ferry, "inspect", &ferry.at("loop.pt"), &[]);
    refused(&ferry, "inspect", Path::new("/dev/zero"), &["--from", "torch"]);

    let index = r#"{"metadata": {}, "weight_map": {"w": "a.safetensors"}}"#;
    let index = ferry.write("model.safetensors.index.json", index);
    pipe(&ferry.at("a.safetensors"));
    assert_eq!(ferry.run_bounded([std::ffi::OsStr::new("inspect"), index.as_os_str()]).code, Some(3));
}

#[test]
fn what_goes_along_is_regular_files() {
    let ferry = Ferry::new();
    let model = ferry.safetensors("m/model.safetensors", &[("w", "F32", &[2], &[0; 8])]);
    pipe(&ferry.at("m/config.json"));
    let done = ferry.run_bounded([
        "convert".into(),
        ferry.at("m").into_os_string(),
        ferry.at("out/").into_os_string(),
        "--to".into(),
        "torch".into(),
    ]);
    // The file is omitted with a loss, or causes an error. The program does not block, and leaves
    // no partial output.
    assert!(matches!(done.code, Some(0 | 3)), "{done}");
    assert!(done.said().contains("config.json"), "{done}");
    let expected: PathBuf = ferry.at("expected.json");
    pipe(&expected);
    refused(&ferry, "check", &model, &["--against", expected.to_str().unwrap()]);
    let manifest = ferry.at("zoo.toml");
    pipe(&manifest);
    refused(&ferry, "run", &manifest, &[]);
    let receipt = ferry.at("x.ferry.json");
    pipe(&receipt);
    assert_eq!(ferry.run_bounded([std::ffi::OsStr::new("verify"), receipt.as_os_str()]).code, Some(4));
}

/// Tests that a journal must be a regular file. A link would cause writes elsewhere, and a pipe
/// would block.
#[test]
fn a_journal_is_a_regular_file() {
    let ferry = Ferry::new();
    ferry.safetensors("m.safetensors", &[("w", "F32", &[2], &[0; 8])]);
    let manifest = ferry.write("zoo.toml", "[[job]]\ninput = \"m.safetensors\"\noutput = \"m.pt\"\n");
    ferry.on("run", &manifest, &[]).expect(0);
    let journal = ferry.names().into_iter().find(|name| name.contains(".journal.")).unwrap();
    let victim = ferry.write("victim", "mine");
    std::fs::remove_file(ferry.at(&journal)).unwrap();
    symlink(&victim, ferry.at(&journal)).unwrap();
    assert_ne!(ferry.run_bounded(["run".as_ref(), manifest.as_os_str()]).code, Some(0));
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "mine");
    std::fs::remove_file(ferry.at(&journal)).unwrap();
    pipe(&ferry.at(&journal));
    assert_ne!(ferry.run_bounded(["run".as_ref(), manifest.as_os_str()]).code, Some(0));
}

/// Tests that a report folder that is a link is refused, because it would cause files to be written
/// elsewhere.
#[test]
fn a_report_goes_nowhere_by_a_link() {
    let ferry = Ferry::new();
    ferry.safetensors("m.safetensors", &[("w", "F32", &[2], &[0; 8])]);
    let manifest = ferry.write("zoo.toml", "[[job]]\ninput = \"m.safetensors\"\noutput = \"m.pt\"\n");
    std::fs::create_dir(ferry.at("victim")).unwrap();
    symlink(ferry.at("victim"), ferry.at("zoo.report")).unwrap();
    ferry.on("run", &manifest, &[]).expect(2).says(&["zoo.report", "a link"]);
    assert!(!ferry.at("m.pt").exists());
    assert_eq!(std::fs::read_dir(ferry.at("victim")).unwrap().count(), 0);
    // A link that the user passes is allowed.
    let named = ferry.at("zoo.report");
    ferry.on("run", &manifest, &["--report", named.to_str().unwrap()]).expect(0);
    assert!(ferry.at("victim/report.json").exists());
}

/// Tests that links in a plan are refused, because they would cause files to be written elsewhere,
/// or other files to be shown.
#[test]
fn a_plan_goes_nowhere_by_a_link() {
    let ferry = Ferry::new();
    ferry.safetensors("m.safetensors", &[("w", "F32", &[2], &[0; 8])]);
    let manifest = ferry.write("zoo.toml", "[[job]]\ninput = \"m.safetensors\"\noutput = \"m.pt\"\n");
    let [plan, victim] = ferry.paths(["plan", "victim"]);
    let make = || drop(ferry.run(args!["plan", &manifest, &plan]).expect(0));
    for name in ["plan.json", "pieces", "pieces/00000.jsonl", "journal", "journal/00000", "leases"] {
        make();
        let entry = plan.join(name);
        std::fs::rename(&entry, &victim).or_else(|_| std::fs::create_dir(&victim)).unwrap();
        let files = || if victim.is_dir() { files_below(&victim) } else { Vec::new() };
        let before = files();
        symlink(&victim, &entry).unwrap();
        ferry.on("run", &plan, &[]).expect(2).says(&["an entry of the plan is a link", name]);
        assert!(!ferry.at("m.pt").exists() && files() == before, "{name}");
        std::fs::remove_dir_all(&plan).unwrap();
        std::fs::remove_dir_all(&victim).or_else(|_| std::fs::remove_file(&victim)).unwrap();
    }
    make();
    symlink(&victim, plan.join("leases/00000.done")).unwrap();
    ferry.on("run", &plan, &[]).expect(0);
    assert!(!victim.exists() && ferry.at("m.pt").exists());
}
