//! A model zoo is migrated, then nothing is to be done, then exactly what has changed.

use std::collections::BTreeSet;
use std::fs;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;
use tensorferry_tests::zoo::Zoo;

/// `FERRY_TEST_GIB` sets the size of the big models.
fn big() -> u64 {
    std::env::var("FERRY_TEST_GIB").map_or(64 << 20, |text| text.parse::<u64>().unwrap() << 30)
}

#[test]
fn a_zoo_of_every_format() {
    let zoo = Zoo::new();
    let fixtures = zoo.add_fixtures(10);
    for number in 0..4 {
        zoo.add_model(&format!("big/{number}.safetensors"), big(), number);
    }
    let start = Instant::now();
    let outcome = zoo.run(&["--quiet"]);
    assert_eq!(outcome.code, Some(0), "{:?} failed", zoo.jobs("failed"));
    let (done, seconds) = (zoo.total("done"), start.elapsed().as_secs_f64());
    println!("{done} models in {seconds:.1} s");
    assert!(done >= 500, "{done}");
    let report = zoo.report();
    for job in report["jobs"].as_array().unwrap() {
        assert_eq!(job["verified"], job["tensors"], "{job}");
    }
    // One of each against what the frameworks said of it.
    let (mut compared, mut differing) = (0, Vec::new());
    for (case, folder) in &fixtures {
        let inputs: Vec<&serde_json::Value> = report["jobs"].as_array().unwrap().iter().collect();
        let own = inputs.iter().filter(|job| Path::new(job["input"].as_str().unwrap()).starts_with(folder));
        for job in own {
            let (input, output) = (job["input"].as_str().unwrap(), job["output"].as_str().unwrap());
            // What was said to be left out is not there to be compared.
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
    // The report is of the run that did something.
    assert_eq!((zoo.total("done"), zoo.total("unchanged")), (done, 0));
    assert_eq!(zoo.outputs(), stands);
    println!("nothing to do for {done} jobs: {seconds:.2} s");

    three_changes(&zoo, done);
}

/// One source changed, one output gone, one output damaged: these are done again, and no others.
fn three_changes(zoo: &Zoo, all: u64) {
    let changed = "torch/zip_views-3/model.pt";
    let bytes = fs::read(zoo.path("in/torch/zip_many_small-0/model.pt")).unwrap();
    fs::write(zoo.path("in").join(changed), bytes).unwrap();
    let gone = "tf/many_keys-5/ckpt.index";
    fs::remove_file(zoo.path("out").join(format!("{gone}.safetensors"))).unwrap();
    let damaged = "safetensors/special_values-7/model.safetensors";
    let file =
        OpenOptions::new().write(true).open(zoo.path("out").join(format!("{damaged}.safetensors"))).unwrap();
    file.write_all_at(b"!", file.metadata().unwrap().len() - 1).unwrap();
    drop(file);

    let before = zoo.outputs();
    let outcome = zoo.run(&["--explain"]).expect(0);
    for said in ["zip_views-3/model.pt: ", " is gone", "is not what was written"] {
        assert!(outcome.stderr.contains(said), "no {said:?} in {}", outcome.stderr);
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
    // Nothing that changes the output.
    manifest("verify = false\ntimeout = \"5m\"");
    let _ = zoo.run(&[]).expect(0).prints(&["2 unchanged"]);
    manifest("out = { format = \"legacy\" }");
    let outcome = zoo.run(&["--explain"]).expect(0);
    assert!(
        outcome.stderr.contains("runs: in/a.safetensors: out changed from nothing to format=legacy"),
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
    // Without a format there is no ending.
    zoo.manifest("[[zoo]]\nroot = \"in\"\noutput = \"other\"\n");
    let _ = zoo.run(&[]).expect(2).says(&["does not say its format"]);
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
fn sidecars_go_along() {
    let zoo = Zoo::new();
    zoo.add_model("org/one/model.safetensors", 1 << 16, 1);
    zoo.write("in/org/one/vocab.txt", b"a b c");
    zoo.write("in/org/one/notes.md", b"no");
    zoo.add_model("hub/model.safetensors", 1 << 16, 2);
    zoo.write("in/hub/config.json", b"{}");
    zoo.manifest(
        "[[zoo]]\nroot = \"in\"\noutput = \"out/{path}/\"\nto = \"torch\"\nsidecars = [\"*.txt\"]\n",
    );
    let _ = zoo.run(&[]).expect(0);
    let files: Vec<String> = zoo.outputs().keys().map(|file| file.display().to_string()).collect();
    let expected = [
        "hub/config.json",
        "hub/pytorch_model.bin",
        "org/one/model/pytorch_model.bin",
        "org/one/model/vocab.txt",
    ];
    assert_eq!(files, expected);
    zoo.write("in/org/one/vocab.txt", b"a b c d");
    let _ = zoo.run(&[]).expect(0);
    assert_eq!(zoo.jobs("done"), ["in/org/one/model.safetensors"]);
    zoo.write("in/hub/tokenizer.json", b"{}");
    let _ = zoo.run(&["--explain"]).expect(0).says(&["other files are in"]);
    assert_eq!(zoo.jobs("done"), ["in/hub"]);
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
