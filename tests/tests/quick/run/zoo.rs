//! Tests of a zoo of models. The first run converts all models. The next run has nothing to do, and
//! later runs convert only models that have changed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;
use std::time::Instant;
use tensorferry_tests::zoo::Zoo;

/// `FERRY_TEST_GIB` sets the size of the large models.
fn big() -> u64 {
    std::env::var("FERRY_TEST_GIB").map_or(16 << 20, |text| text.parse::<u64>().unwrap() << 30)
}

#[test]
fn a_zoo_of_every_format() {
    let zoo = Zoo::new();
    let fixtures = zoo.add_fixtures(3);
    for number in 0..4 {
        zoo.add_model(&format!("big/{number}.safetensors"), big(), number);
    }
    let start = Instant::now();
    let outcome = zoo.run(&["--quiet"]);
    assert_eq!(outcome.code, Some(0), "{:?} failed", zoo.jobs("failed"));
    let (done, seconds) = (zoo.total("done"), start.elapsed().as_secs_f64());
    println!("{done} models in {seconds:.1} s");
    assert!(done >= 150, "{done}");
    let report = zoo.report();
    for job in report["jobs"].as_array().unwrap() {
        assert_eq!(job["verified"], job["tensors"], "{job}");
    }
    // One copy of each fixture is compared with what its framework reads.
    let (mut compared, mut differing) = (0, Vec::new());
    for (case, folder) in &fixtures {
        let inputs: Vec<&serde_json::Value> = report["jobs"].as_array().unwrap().iter().collect();
        let own = inputs.iter().filter(|job| Path::new(job["input"].as_str().unwrap()).starts_with(folder));
        for job in own {
            let (input, output) = (job["input"].as_str().unwrap(), job["output"].as_str().unwrap());
            // Tensors that are reported as omitted cannot be compared.
            let losses = job["losses"].as_array().unwrap();
            if losses.iter().any(|loss| loss["kind"] == "tensor" || loss["kind"] == "state") {
                continue;
            }
            if !zoo.ferry.equal(Path::new(input), Path::new(output)) {
                differing.push(format!("{}: {job}", case.name));
            }
            compared += 1;
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
    assert!(compared >= 19, "{compared} of {}", fixtures.len());
    zoo.nothing_is_staged();

    let stands = zoo.outputs();
    let start = Instant::now();
    let again = zoo.run(&["--quiet"]).expect(0);
    let seconds = start.elapsed().as_secs_f64();
    let _ = again.prints(&[&format!("{done} unchanged")]);
    // The report describes the last run that did something.
    assert_eq!((zoo.total("done"), zoo.total("unchanged")), (done, 0));
    assert_eq!(zoo.outputs(), stands);
    println!("nothing to do for {done} jobs: {seconds:.2} s");

    three_changes(&zoo, done);
}

/// Changes one source, removes one output and damages one output. Checks that only these three jobs
/// run again.
fn three_changes(zoo: &Zoo, all: u64) {
    let changed = "torch/zip_views-1/model.pt";
    let bytes = fs::read(zoo.path("in/torch/zip_many_small-0/model.pt")).unwrap();
    fs::write(zoo.path("in").join(changed), bytes).unwrap();
    let gone = "tf/many_keys-2/ckpt.index";
    fs::remove_file(zoo.path("out").join(format!("{gone}.safetensors"))).unwrap();
    let damaged = "safetensors/special_values-1/model.safetensors";
    let file =
        OpenOptions::new().write(true).open(zoo.path("out").join(format!("{damaged}.safetensors"))).unwrap();
    file.write_all_at(b"!", file.metadata().unwrap().len() - 1).unwrap();
    drop(file);

    let before = zoo.outputs();
    let outcome = zoo.run(&["--explain"]).expect(0);
    for said in ["zip_views-1/model.pt: ", " is gone", "was modified after it was written"] {
        assert!(outcome.stderr.contains(said), "{said:?} is not in {}", outcome.stderr);
    }
    let expected: Vec<String> = [damaged, gone, changed].iter().map(|name| format!("in/{name}")).collect();
    assert_eq!(zoo.jobs("done"), expected);
    assert_eq!(zoo.total("unchanged"), all - 3);
    let after = zoo.outputs();
    let other: BTreeSet<_> = after.iter().filter(|(file, facts)| before.get(*file) != Some(*facts)).collect();
    assert_eq!(other.len(), 3, "{other:?}");
    assert!(
        zoo.ferry
            .equal(&zoo.path("in").join(damaged), &zoo.path("out").join(format!("{damaged}.safetensors")))
    );
}

#[test]
fn what_the_manifest_says_otherwise_is_done_again() {
    let zoo = Zoo::new();
    zoo.add_model("a.safetensors", 1 << 20, 1);
    zoo.add_model("b.safetensors", 1 << 20, 2);
    let manifest = |rule: &str| {
        zoo.manifest(&format!(
            "[[zoo]]\nroot = \"in\"\noutput = \"out/{{stem}}.pt\"\n[[zoo.rule]]\nmatch = \"a.*\"\n{rule}\n"
        ));
    };
    manifest("verify = true");
    let _ = zoo.run(&[]).expect(0);
    assert_eq!(zoo.total("done"), 2);
    // These settings do not affect the output.
    manifest("verify = false\ntimeout = \"5m\"");
    let _ = zoo.run(&[]).expect(0).prints(&["2 unchanged"]);
    manifest("output_options = { format = \"legacy\" }");
    let outcome = zoo.run(&["--explain"]).expect(0);
    assert!(
        outcome
            .stderr
            .contains("runs: in/a.safetensors: output_options changed from nothing to format=legacy"),
        "{outcome}"
    );
    assert_eq!(zoo.jobs("done"), ["in/a.safetensors"]);
    let _ = zoo.run(&["--only", "in/b*"]).expect(0).prints(&["1 job: 1 unchanged"]);
}

#[test]
fn a_folder_takes_the_tree_of_the_zoo() {
    let zoo = Zoo::new();
    for (seed, name) in ["a.safetensors", "sub/a.safetensors"].into_iter().enumerate() {
        zoo.add_model(name, 1 << 16, seed as u64);
    }
    for (output, out) in [("out", "out"), ("out/v1.5/", "out/v1.5")] {
        zoo.manifest(&format!("[[zoo]]\nroot = \"in\"\noutput = \"{output}\"\nto = \"torch\"\n"));
        let _ = zoo.run(&[]).expect(0);
        for name in ["a.pt", "sub/a.pt"] {
            assert!(zoo.path(out).join(name).is_file(), "{out}/{name}");
        }
    }
    // Without a format in the manifest, the suffix of the output is unknown.
    zoo.manifest("[[zoo]]\nroot = \"in\"\noutput = \"other\"\n");
    let _ = zoo.run(&[]).expect(2).says(&["does not determine its format"]);
}

#[test]
fn an_output_of_others_is_not_replaced() {
    let zoo = Zoo::new();
    zoo.add_model("a.safetensors", 1 << 20, 1);
    zoo.add_model("b.safetensors", 1 << 20, 2);
    zoo.write("out/a.pt", b"mine");
    let manifest = |force: &str| {
        zoo.manifest(&format!(
            "[defaults]\nforce = \"{force}\"\n[[zoo]]\nroot = \"in\"\noutput = \"out/{{stem}}.pt\"\n"
        ));
    };
    manifest("own");
    let _ = zoo.run(&[]).expect(3).says(&["a.safetensors", "exists"]);
    assert_eq!(fs::read(zoo.path("out/a.pt")).unwrap(), b"mine");
    assert_eq!(zoo.jobs("done"), ["in/b.safetensors"]);
    manifest("always");
    let _ = zoo.run(&[]).expect(0);
    assert_eq!(zoo.jobs("done"), ["in/a.safetensors"]);
    zoo.add_model("b.safetensors", 2 << 20, 3);
    manifest("never");
    let _ = zoo.run(&[]).expect(3).says(&["b.safetensors", "exists"]);
}

#[test]
fn companions_are_copied() {
    let zoo = Zoo::new();
    zoo.add_model("org/one/model.safetensors", 1 << 16, 1);
    zoo.write("in/org/one/vocab.txt", b"a b c");
    zoo.write("in/org/one/notes.md", b"no");
    zoo.add_model("hub/model.safetensors", 1 << 16, 2);
    zoo.write("in/hub/config.json", b"{}");
    zoo.manifest(
        "[[zoo]]\nroot = \"in\"\noutput = \"out/{path}/\"\nto = \"torch\"\ncompanions = [\"*.txt\"]\n",
    );
    let _ = zoo.run(&[]).expect(0);
    let files: Vec<String> = zoo.outputs().keys().map(|file| file.display().to_string()).collect();
    let expected = ["hub/pytorch_model.bin", "org/one/model/pytorch_model.bin", "org/one/model/vocab.txt"];
    assert_eq!(files, expected);
    zoo.write("in/org/one/vocab.txt", b"a b c d");
    let _ = zoo.run(&[]).expect(0);
    assert_eq!(zoo.jobs("done"), ["in/org/one/model.safetensors"]);
    zoo.write("in/hub/tokenizer.json", b"{}");
    let _ = zoo.run(&["--explain"]).expect(0).says(&["the files in "]);
    assert_eq!(zoo.jobs("done"), ["in/hub"]);
}

/// Writes a set with this many shards, each with its own tensor.
fn add_set(zoo: &Zoo, stem: &str, count: u8) {
    for number in 1..=count {
        let (name, tensor) = (format!("{stem}-{number:05}-of-{count:05}.safetensors"), format!("t{number}"));
        zoo.ferry.safetensors(&name, &[(&tensor, "U8", &[4], &[number; 4])]);
    }
}

#[test]
fn shards_without_an_index_are_one_model() {
    let zoo = Zoo::new();
    add_set(&zoo, "in/m/model", 3);
    add_set(&zoo, "in/two/[x]", 2);
    add_set(&zoo, "in/two/[x]", 3);
    let manifest = |rest: &str| zoo.manifest(&format!("[[zoo]]\nroot = \"in\"\nto = \"torch\"\n{rest}\n"));
    let tensors = || -> Vec<u64> {
        let report = zoo.report();
        report["jobs"].as_array().unwrap().iter().map(|job| job["tensors"].as_u64().unwrap()).collect()
    };
    manifest("output = \"out/{parent}/{name}.pt\"");
    let _ = zoo.run(&[]).expect(0).prints(&["3 jobs: 3 done"]);
    assert_eq!(tensors(), [3, 2, 3]);
    let _ = zoo.run(&[]).expect(0).prints(&["3 unchanged"]);
    // If one shard changes, the whole model has changed.
    zoo.ferry.safetensors("in/m/model-00002-of-00003.safetensors", &[("t2", "U8", &[5], &[7; 5])]);
    let _ = zoo.run(&[]).expect(0).prints(&["1 done, 2 unchanged"]);
    manifest("output = \"alone/{path}.pt\"\ninput_options = { shard = \"alone\" }");
    let _ = zoo.run(&[]).expect(0).prints(&["8 done"]);
    assert!(zoo.path("alone/m/model-00003-of-00003.pt").is_file());
    manifest("output = \"one/{path}.pt\"");
    let _ = zoo.run(&[]).expect(2).says(&["two jobs write"]);
}

#[test]
fn outputs_are_no_inputs() {
    let zoo = Zoo::new();
    zoo.add_model("a.safetensors", 1 << 16, 1);
    zoo.add_model("sub/b.safetensors", 1 << 16, 2);
    zoo.write("rows/a.jsonl", b"{\"x\": 1}\n");
    // The outputs and the journal are inside the root, next to the sources. Some outputs are
    // records.
    zoo.manifest(
        "[[zoo]]\nname = \"below\"\nroot = \".\"\noutput = \"out/{path}.safetensors\"\n\
         [[zoo]]\nname = \"beside\"\nroot = \"in\"\noutput = \"in/{path}.pt\"\n\
         [[dataset]]\nroot = \".\"\noutput = \"{parent}/{stem}.parquet\"\n",
    );
    let _ = zoo.run(&[]).expect(0).prints(&["5 jobs: 5 done"]);
    for _ in 0..2 {
        let _ = zoo.run(&[]).expect(0).prints(&["5 jobs: 5 unchanged"]);
    }
    let _ = zoo.plan(1).expect(0).prints(&["\"jobs\":5"]);
    let _ = zoo.run(&["--shard", "1/1"]).expect(0).prints(&["5 jobs: 5 unchanged"]);
    // A file without a receipt may be a user's file, so it is an input.
    fs::remove_file(zoo.path("in/a.pt.ferry.json")).unwrap();
    let _ = zoo.run(&[]).expect(2).says(&["two jobs write", "in/a.pt"]);
    // A folder of outputs can be a root.
    zoo.manifest("[[zoo]]\nroot = \"out\"\noutput = \"again/{path}.pt\"\n");
    let _ = zoo.run(&[]).expect(0).prints(&["2 jobs: 2 done"]);
}

#[test]
fn what_is_passed_over_is_told() {
    let zoo = Zoo::new();
    zoo.add_model("a.SAFETENSORS", 1 << 16, 1);
    symlink("gone", zoo.path("in/b.safetensors")).unwrap();
    symlink("gone", zoo.path("in/notes.md")).unwrap();
    fs::write(zoo.path("in").join(OsStr::from_bytes(b"c\xe9.safetensors")), "").unwrap();
    let manifest = |rest: &str| {
        zoo.manifest(&format!("[[zoo]]\nroot = \"in\"\noutput = \"out/{{path}}.pt\"\n{rest}\n"));
    };
    manifest("");
    let told = ["to missing files: 1 (b.safetensors)", "not UTF-8: 1 (c\u{fffd}.safetensors)"];
    let _ = zoo.run(&["--dry-run"]).expect(0).prints(&["1 job: 1 would run"]).says(&told);
    let _ = zoo.plan(1).expect(0).says(&told).prints(&["\"notes\":[\"below "]);
    let outcome =
        zoo.run(&["--json"]).expect(0).says(&told).prints(&["{\"event\":\"note\",\"note\":\"below "]);
    assert!(!outcome.stderr.contains("notes.md") && zoo.path("out/a.pt").is_file(), "{outcome}");
    manifest("exclude = [\"b.*\", \"c*\"]");
    let outcome = zoo.run(&[]).expect(0);
    assert!(!outcome.stderr.contains("note:"), "{outcome}");
}

#[test]
fn shards_together_do_everything_once() {
    let zoo = Zoo::new();
    for number in 0..12 {
        zoo.add_model(&format!("{number}.safetensors"), 1 << 16, number);
    }
    let shards: Vec<_> = (1..=3).map(|shard| zoo.start(&["--shard", &format!("{shard}/3")])).collect();
    for mut shard in shards {
        assert!(shard.wait().unwrap().success());
    }
    assert_eq!(zoo.outputs().len(), 12);
    let stands = zoo.outputs();
    let _ = zoo.run(&[]).expect(0);
    assert_eq!(zoo.total("unchanged"), 12);
    assert_eq!(zoo.outputs(), stands);
    let mut slurm = zoo.command(&["--shard", "slurm"]);
    let variables =
        [("ID", "11"), ("MIN", "10"), ("COUNT", "3")].map(|(n, v)| (format!("SLURM_ARRAY_TASK_{n}"), v));
    let _ = tensorferry_tests::ferry::run(slurm.envs(variables)).expect(0);
    let _ = zoo.run(&["--shard", "slurm"]).expect(2).says(&["SLURM_ARRAY_TASK_ID"]);
    let _ = zoo.run(&["--shard", "0/3"]).expect(2).says(&["I/N"]);
}

/// Tests the removal of unchanged old weights in a different format, and of sidecars that the
/// source no longer has. Otherwise, they would look like a part of the new output.
#[test]
fn what_the_new_output_does_not_bring_goes_if_it_is_as_it_was_written() {
    for receipt in [true, false] {
        let zoo = Zoo::new();
        zoo.add_model("hub/model.safetensors", 1 << 16, 1);
        for sidecar in ["config.json", "vocab.json", "notes.json"] {
            zoo.write(&format!("in/hub/{sidecar}"), b"{}");
        }
        let manifest = |to: &str| {
            zoo.manifest(&format!(
                "[[zoo]]\nroot = \"in\"\noutput = \"out/{{path}}/\"\nto = \"{to}\"\nreceipt = {receipt}\n"
            ));
        };
        manifest("torch");
        let _ = zoo.run(&[]).expect(0);
        for sidecar in ["vocab.json", "notes.json"] {
            fs::remove_file(zoo.path("in/hub").join(sidecar)).unwrap();
        }
        zoo.write("out/hub/notes.json", b"{\"mine\": 1}");
        zoo.write("out/hub/other.txt", b"mine");
        manifest("safetensors");
        let outcome = zoo.run(&[]).expect(0);
        let files: Vec<String> = zoo.outputs().keys().map(|file| file.display().to_string()).collect();
        let expected = ["config.json", "model.safetensors", "notes.json", "other.txt"];
        assert_eq!(files, expected.map(|name| format!("hub/{name}")), "{receipt}: {outcome}");
        let _ = outcome.says(&["\"notes.json\" next to the output may be mistaken for a part of it"]);
    }
}

#[test]
fn a_receipt_says_whose_an_output_is_that_no_journal_knows() {
    let zoo = Zoo::new();
    for (seed, name) in [(1, "a"), (2, "b"), (3, "c")] {
        zoo.add_model(&format!("{name}.safetensors"), 1 << 16, seed);
    }
    zoo.manifest("[[zoo]]\nroot = \"in\"\noutput = \"out/{stem}.pt\"\n");
    let _ = zoo.run(&[]).expect(0);
    let stands = zoo.outputs();
    let forget = || fs::remove_file(zoo.path("zoo.journal.jsonl")).unwrap();
    // A second plan of the same manifest also has its own journals.
    let _ = zoo.plan(2).expect(0);
    let _ = tensorferry_tests::ferry::run(&mut zoo.on_plan("run", &[])).expect(0).prints(&["3 unchanged"]);
    forget();
    let _ = zoo.run(&["--explain"]).expect(0).prints(&["3 unchanged"]).says(&["its receipt is checked"]);
    assert_eq!(zoo.outputs(), stands);
    forget();
    zoo.add_model("a.safetensors", 1 << 16, 4);
    zoo.write("out/b.pt", b"mine");
    let outcome = zoo.run(&[]).expect(3).prints(&["1 failed, 1 done, 1 unchanged"]);
    let _ = outcome.says(&["b.pt exists", "set force = \"always\""]);
    assert!(zoo.ferry.equal(&zoo.path("in/a.safetensors"), &zoo.path("out/a.pt")));
    assert_eq!(fs::read(zoo.path("out/b.pt")).unwrap(), b"mine");
    // The contents of a damaged line are determined again, and the damage is reported.
    let journal = fs::read_to_string(zoo.path("zoo.journal.jsonl")).unwrap();
    fs::write(
        zoo.path("zoo.journal.jsonl"),
        journal.replacen("\"event\":\"commit\"", "\"event\":\"c0mmit\"", 1),
    )
    .unwrap();
    let _ = zoo
        .run(&["--only", "in/[ac]*"])
        .expect(0)
        .prints(&["2 unchanged"])
        .says(&["a line of the journal is damaged"]);
}

#[test]
fn a_receipt_that_is_asked_for_later_is_written() {
    let zoo = Zoo::new();
    zoo.add_model("a.safetensors", 1 << 16, 1);
    let manifest = |receipt: bool| {
        zoo.manifest(&format!("[[zoo]]\nroot = \"in\"\noutput = \"out/{{stem}}.pt\"\nreceipt = {receipt}\n"));
    };
    manifest(false);
    let _ = zoo.run(&[]).expect(0);
    manifest(true);
    let _ = zoo.run(&["--explain"]).expect(0).prints(&["1 done"]).says(&["it has no receipt"]);
    let _ = zoo.run(&[]).expect(0).prints(&["1 unchanged"]);
}
