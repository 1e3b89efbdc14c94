//! Tests of folders from a clone or an archive, in which files that look like ferry's own must not
//! be trusted, and of folders with many files.

use serde_json::json;
use std::os::unix::fs::symlink;
use std::path::Path;
use tensorferry_tests::ferry::{after, run};
use tensorferry_tests::files::{files_below, staging_area};
use tensorferry_tests::{Ferry, args};

/// A number of files that is greater than the limit on open files.
const FILES: usize = 300;

/// Tests a stage whose record would cause a file to be written through a link, and a stage whose
/// record would move files out of a different folder.
#[test]
fn a_stage_in_a_clone_is_not_obeyed() {
    let ferry = Ferry::new();
    let model = ferry.safetensors("r/m.safetensors", &[("w", "F32", &[2], &[0; 8])]);
    ferry.write("victim/precious", "mine");
    let set = |name: &str| {
        let file = json!({"name": name, "index": false, "old": null,
                          "new": {"inode": 1, "len": 10, "modified": [1, 0]}});
        let set = json!({"folder": null, "force": false, "removes_index": false, "missing_folders": [],
                         "files": [file], "stale": []});
        json!({"version": 1, "sync": false, "action": {"set": set}}).to_string()
    };
    // This lock was created on a different kernel.
    let proof = r#"{"inode":1,"changed":[1,0],"born":1}"#;
    let area = format!("r/{}", staging_area());
    for (stage, record) in [("into", set("d/.bash_login")), ("from", set("precious"))] {
        for (name, text) in [("lock", ""), ("proof", proof), ("commit.json", &record)] {
            ferry.write(&format!("{area}/{stage}/{name}"), text);
        }
    }
    ferry.write(&format!("{area}/into/new/d/.bash_login"), "echo owned");
    symlink(ferry.at("victim"), ferry.at("r/d")).unwrap();
    symlink(ferry.at("victim"), ferry.at(format!("{area}/from/new"))).unwrap();
    // A pipe would block a reader that does not check the file type first.
    ferry.write(&format!("{area}/pipe/lock"), "");
    ferry.write(&format!("{area}/pipe/new/x"), "");
    let pipe = ferry.at(format!("{area}/pipe/proof"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let before = files_below(&ferry.at("r"));

    let done = ferry.convert(&model, &ferry.at("r/m.pt"), &[]);
    assert_eq!(done.stderr.matches("not created here").count(), 3, "{done}");
    assert_eq!(files_below(&ferry.at("victim")), [Path::new("precious")]);
    std::fs::remove_file(ferry.at("r/m.pt")).unwrap();
    assert_eq!(files_below(&ferry.at("r")), before);
    // A manual recovery must not follow the link.
    for stage in ["into", "from"] {
        let stage = ferry.at(format!("{area}/{stage}"));
        ferry.run([std::ffi::OsStr::new("recover"), stage.as_os_str()]).expect(2).says(&["symbolic link"]);
    }
    assert_eq!(files_below(&ferry.at("victim")), [Path::new("precious")]);
    let _ = ferry.run([std::ffi::OsStr::new("recover"), ferry.at("victim").as_os_str()]).expect(2);
}

/// Tests that links in the Hub's cache to its own blobs are followed, and that other links, which
/// may lead to any user's files, are not.
#[test]
fn a_sidecar_is_not_fetched_from_elsewhere() {
    let ferry = Ferry::new();
    let secret = ferry.write("home/.ssh/id", "secret");
    let snapshot = "hub/models--org--model/snapshots/abc";
    ferry.safetensors(&format!("{snapshot}/model.safetensors"), &[("w", "F32", &[2], &[0; 8])]);
    ferry.write("hub/models--org--model/blobs/1", "{}");
    symlink("../../blobs/1", ferry.at(format!("{snapshot}/config.json"))).unwrap();
    symlink(&secret, ferry.at(format!("{snapshot}/tokenizer.json"))).unwrap();
    let (input, output) = (ferry.at(snapshot), ferry.at("out/"));
    let done = ferry.convert(&input, &output, &["--to", "torch"]);
    assert!(done.stderr.contains("tokenizer.json") && done.stderr.contains("leads out"), "{done}");
    let names = files_below(&output);
    let has = |name: &str| names.iter().any(|path| path == Path::new(name));
    assert!(has("config.json") && !has("tokenizer.json"), "{names:?}");
    ferry.try_convert(&input, &ferry.at("strict/"), &["--to", "torch", "--strict"]).expect(3);
}

#[test]
fn names_of_strangers_do_not_steer_the_terminal() {
    let ferry = Ferry::new();
    let name = "a\u{202e}b\u{2028}c\u{9b}2J";
    let model = ferry.safetensors("m.safetensors", &[(name, "F32", &[2], &[0; 8])]);
    let long = "x".repeat(1 << 20);
    let header = format!("{{\"{long}\":{{\"dtype\":\"F99\",\"shape\":[1],\"data_offsets\":[0,4]}}}}");
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 4]].concat();
    let odd = ferry.write("odd.safetensors", bytes);
    let json = ferry.on("inspect", &model, &["--json"]);
    assert_eq!(json.json()["tensors"][0]["name"], name, "{json}");
    for outcome in [ferry.on("inspect", &model, &[]), ferry.on("inspect", &odd, &[]), json] {
        let said = outcome.said() + &outcome.stdout;
        assert!(!said.contains(['\u{202e}', '\u{2028}', '\u{9b}']), "{said:.200}");
        assert!(said.len() < 10_000, "{} bytes", said.len());
    }
}

/// Tests inputs and outputs with more files than a process may have open.
#[test]
fn few_files_are_open_at_once() {
    let ferry = Ferry::new();
    let rows: String = (0..FILES).map(|row| format!("{{\"__key__\": \"k{row}\", \"n\": {row}}}\n")).collect();
    ferry.write("rows.jsonl", rows);
    let names: Vec<String> = (0..FILES).map(|at| format!("w.{at}")).collect();
    let tensors: Vec<_> = names.iter().map(|name| (&**name, "F32", &[4_u64][..], &[0_u8; 16][..])).collect();
    ferry.safetensors("m.safetensors", &tensors);
    let shards = &*format!("shards={FILES}");
    let rows: [(&str, &str, &[&str]); 8] = [
        ("rows.jsonl", "csv/", &["--to", "csv", "-o", shards]),
        ("csv/", "tar/", &["--to", "webdataset", "-o", shards, "--verify", "--receipt"]),
        ("tar/", "rows.parquet", &[]),
        ("rows.parquet", "mds/", &["--to", "mds", "-o", "shard_rows=1"]),
        ("m.safetensors", "orbax/", &["--to", "orbax"]),
        ("orbax/", "sharded/", &["--to", "torch", "-o", "max_shard_size=16", "--verify", "--receipt"]),
        ("sharded/", "bundle/", &["--to", "tf-bundle", "-o", "max_shard_size=16"]),
        ("bundle/", "m.npz", &[]),
    ];
    for (input, output, options) in rows {
        let [input, output] = ferry.paths([input, output]);
        let mut command = ferry.command(args!["convert", &input, &output]);
        run(&mut after("ulimit -n 256", command.args(options))).expect(0);
        assert!(output.is_file() || files_below(&output).len() >= FILES, "{}", output.display());
    }
}
