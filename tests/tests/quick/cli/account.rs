//! Tests of input entries that cannot be read, and of the reports that list the read and omitted
//! entries.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use tensorferry_tests::args;
use tensorferry_tests::ferry::{self, Ferry, Outcome};

const ALLOWED: [&str; 2] = ["--allow-loss", "input"];

/// Writes a folder with two files of records and one file without data.
fn records() -> Ferry {
    let ferry = Ferry::new();
    for (name, text) in [("a.jsonl", "{\"id\":1}\n"), ("b.jsonl", "{\"id\":2}\n"), ("_SUCCESS", "")] {
        ferry.write(&format!("in/{name}"), text);
    }
    ferry
}

/// Runs the program with file permissions enforced, even for the superuser.
fn bound(ferry: &Ferry, arguments: &[&std::ffi::OsStr]) -> Outcome {
    let mut command = ferry.command(arguments);
    if rustix::process::geteuid().is_root() {
        command =
            ferry::after("set -- setpriv --bounding-set=-dac_override,-dac_read_search \"$@\"", &command);
    }
    ferry::run(&mut command)
}

#[test]
fn a_run_reports_the_account_of_each_input() {
    let ferry = records();
    ferry.write("in/c.jsonl.bz2", "BZh91A");
    ferry.write("m.toml", "[[job]]\ninput = \"in\"\noutput = \"out.parquet\"\n");
    let (manifest, report) = (ferry.at("m.toml"), ferry.at("m.report/report.json"));
    let line = "2 read, 1 without data, 1 left out";
    ferry.on("run", &manifest, &["--dry-run"]).expect(0).prints(&[line]);
    let events = ferry.on("run", &manifest, &["--dry-run", "--json"]).expect(0).stdout;
    let planned: serde_json::Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!(planned["jobs"][0]["account"]["left_out"][0], "c.jsonl.bz2", "{planned}");
    ferry.on("run", &manifest, &[]).expect(0).says(&[&format!("input: out.parquet: {line}")]);
    let account = || {
        let report: serde_json::Value = serde_json::from_slice(&std::fs::read(&report).unwrap()).unwrap();
        report["jobs"][0]["account"].clone()
    };
    let first = account();
    assert_eq!((&first["counts"]["read"], &first["left_out"][0]), (&2.into(), &"c.jsonl.bz2".into()));
    assert!(std::fs::read_to_string(ferry.at("m.report/report.html")).unwrap().contains(line));
    // The second run executes only the new job. The first job's account is read from the journal.
    let more = "[[job]]\ninput = \"in\"\noutput = \"out.csv\"\n";
    ferry.write("m.toml", std::fs::read_to_string(&manifest).unwrap() + more);
    ferry.on("run", &manifest, &[]).expect(0);
    assert_eq!(account(), first);
}

#[test]
fn what_is_not_read_is_an_error_of_strict_commands_unless_it_is_allowed() {
    let ferry = records();
    let input = ferry.at("in");
    let output = ferry.at("out.jsonl");
    let each = |options: &[&str]| {
        let options: Vec<_> = options.iter().map(std::ffi::OsStr::new).collect();
        [args!["convert", input, output, "--force"].to_vec(), args!["cat", input].to_vec()]
            .into_iter()
            .chain([args!["diff", input, output].to_vec()])
            .map(|command| ferry.run([command, options.clone()].concat()))
            .collect::<Vec<_>>()
    };
    let ends = |options: &[&str], code: i32, message: &str| {
        for outcome in each(options) {
            outcome.expect(code).says(&[message]);
        }
    };
    ends(&["--strict"], 0, "");
    ferry.write("in/c.jsonl.bz2", "BZh91A");
    ends(&[], 0, "lost: input \"c.jsonl.bz2\"");
    ends(&["--strict"], 3, "pass --allow-loss input");
    ends(&["--strict", "--allow-loss", "tensor"], 3, "pass --allow-loss input");
    ends(&["--strict", "--allow-loss", "input"], 0, "lost: input \"c.jsonl.bz2\"");
    symlink("gone", ferry.at("in/d.jsonl")).unwrap();
    ends(&[], 3, "or pass --allow-loss input to skip it");
    ends(&ALLOWED, 0, "lost: input \"d.jsonl\"");
    assert_eq!(ferry.on("cat", &input, &ALLOWED).expect(0).stdout.lines().count(), 2);
}

#[test]
fn the_files_of_a_split_are_accounted_for() {
    let ferry = Ferry::new();
    for name in ["train-a.jsonl", "train-b.jsonl.bz2", "train/c.csv.part", "test.jsonl", "test-2.jsonl.bz2"] {
        ferry.write(&format!("in/{name}"), "{\"id\":1}\n");
    }
    let (input, out) = (ferry.at("in"), ferry.at("out.jsonl"));
    let report = ferry.convert(&input, &out, &["--part", "train", "--json"]).json();
    let left_out = &report["account"]["left_out"];
    assert_eq!(*left_out, serde_json::json!(["train-b.jsonl.bz2", "train/c.csv.part"]), "{report}");
    ferry.try_convert(&input, &out, &["--part", "train", "--strict", "--force"]).expect(3).says(&["train-b"]);
    symlink("gone", ferry.at("in/train-d.jsonl")).unwrap();
    ferry.try_convert(&input, &out, &["--part", "train", "--force"]).expect(3).says(&["train-d.jsonl"]);
    ferry.convert(&input, &out, &["--part", "test", "--force"]);
}

#[test]
fn folders_that_links_lead_to_are_accounted_for_if_links_are_followed() {
    let ferry = records();
    ferry.write("elsewhere/c.jsonl", "{\"id\":3}\n");
    symlink("../elsewhere", ferry.at("in/more")).unwrap();
    symlink(".", ferry.at("in/circle")).unwrap();
    let (input, out) = (ferry.at("in"), ferry.at("out.jsonl"));
    let report = ferry.convert(&input, &out, &["--follow-links", "--json"]).json();
    assert_eq!(report["account"]["left_out"], serde_json::json!(["more/c.jsonl"]), "{report}");
}

#[test]
fn names_tell_what_is_unfinished_compressed_or_elsewhere() {
    for (name, is_left_out) in [
        ("b.jsonl.filepart", true),
        ("b.jsonl.tmp17", true),
        ("b.jsonl.gz.1", true),
        ("b.pkl.gz", true),
        ("b.avro.part", true),
        (".b.jsonl.x7Ge2K", true),
        ("c.jsonl.dvc", true),
        ("a.jsonl.dvc", false),
        (".b.jsonl", true),
        (".env", false),
        ("README.md", false),
    ] {
        let ferry = records();
        ferry.write(&format!("in/{name}"), "x");
        let code = if is_left_out { 3 } else { 0 };
        ferry.try_convert(&ferry.at("in"), &ferry.at("out.csv"), &["--strict"]).expect(code);
    }
    let ferry = Ferry::new();
    ferry.safetensors("in/model.safetensors", &[("w", "F32", &[1], &[0; 4])]);
    for name in ["optimizer.pt", "rng_state_0.pth", "latest", "optimizer_0/__0_0.distcp"] {
        ferry.write(&format!("in/{name}"), "x");
    }
    symlink("model.safetensors", ferry.at("in/best.safetensors")).unwrap();
    let (input, out) = (ferry.at("in"), ferry.at("out"));
    ferry.convert(&input, &out, &["--to", "safetensors", "--strict"]);
    for name in ["head.pt", "ema.pt.gz", "model-00002-of-00002.safetensors.part"] {
        let at = ferry.at("in").join(name);
        ferry.convert(&ferry.at("in/model.safetensors"), &ferry.at("other.pt"), &["--force"]);
        std::fs::rename(ferry.at("other.pt"), &at).unwrap();
        let strict = ["--to", "safetensors", "--strict", "--force"];
        ferry.try_convert(&input, &out, &strict).expect(3).says(&[name]);
        std::fs::remove_file(at).unwrap();
    }
}

/// Runs the same checks for models, whose readers read a whole folder.
#[test]
fn diff_of_models_says_what_was_not_read() {
    let ferry = Ferry::new();
    let a = ferry.safetensors("a/model.safetensors", &[("w", "F32", &[1], &[0; 4])]);
    let folder = a.parent().unwrap();
    ferry.safetensors("a/ema.safetensors", &[("w", "F32", &[1], &[1; 4])]);
    ferry.diff(folder, &a, &[]).expect(0).says(&["lost: input \"ema.safetensors\""]);
    ferry.diff(folder, &a, &["--strict"]).expect(3).says(&["pass --allow-loss input"]);
    symlink("gone", ferry.at("a/b.safetensors")).unwrap();
    ferry.diff(folder, &a, &[]).expect(3).says(&["b.safetensors", "--allow-loss input"]);
    ferry.diff(&a, folder, &ALLOWED).expect(0).says(&["b.safetensors"]).prints(&["equal"]);
}

#[test]
fn files_and_folders_without_permission_are_errors_or_losses() {
    let ferry = records();
    ferry.safetensors("model/model.safetensors", &[("w", "F32", &[1], &[0; 4])]);
    for name in ["in/README", "in/sub/c.jsonl", "model/vocab.txt", "model/sub/x.txt"] {
        ferry.write(name, "{\"id\":3}\n");
    }
    let modes = |mode: u32| {
        for name in ["in/b.jsonl", "in/README", "in/sub", "model/vocab.txt", "model/sub"] {
            let mode = if name.ends_with("sub") && mode != 0 { 0o755 } else { mode };
            set_permissions(ferry.at(name), Permissions::from_mode(mode)).unwrap();
        }
    };
    modes(0);
    let [input, output, model, models] = ferry.paths(["in", "out.jsonl", "model", "models/"]);
    for command in
        [&args!["convert", input, output, "--force"][..], &args!["cat", input], &args!["diff", input, input]]
    {
        bound(&ferry, command).expect(5).says(&[
            "b.jsonl",
            "Permission denied",
            "or pass --allow-loss input",
        ]);
        let allowed = [command, &args!["--allow-loss", "input"]].concat();
        bound(&ferry, &allowed).expect(0).says(&["b.jsonl", "README", "\"sub\"", "Permission denied"]);
    }
    assert_eq!(ferry.cat(&output), "{\"id\":1}\n");
    let of_model = args!["convert", model, models, "--to", "torch", "--force"];
    bound(&ferry, &of_model).expect(5).says(&["sub", "Permission denied", "or pass --allow-loss input"]);
    let allowed = [&of_model[..], &args!["--allow-loss", "input"]].concat();
    let lost = bound(&ferry, &[&allowed[..], &args!["--json"]].concat()).expect(0).json();
    assert_eq!(lost["account"]["left_out"], serde_json::json!(["sub", "vocab.txt"]), "{lost}");
    // All sub-folders that may contain a model can be read, but one sidecar cannot be copied and is
    // lost.
    modes(0o644);
    set_permissions(ferry.at("model/vocab.txt"), Permissions::from_mode(0o0)).unwrap();
    bound(&ferry, &of_model).expect(0).says(&["lost: input \"vocab.txt\"", "Permission denied"]);
}
