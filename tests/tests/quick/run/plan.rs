//! Tests of plans. A plan is created once, and many workers process its pieces. Each output must be
//! written once, even if workers are slow, frozen or killed.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tensorferry_test_kit::fixtures::sha256;
use tensorferry_tests::ferry::run;
use tensorferry_tests::zoo::{Zoo, wake};

/// Creates a zoo of small models, and a plan with three jobs per piece.
fn planned(models: u64) -> Zoo {
    let zoo = Zoo::new();
    zoo.manifest(
        "[[zoo]]\nroot = \"in\"\noutput = \"out/{path}.safetensors\"\nto = \"safetensors\"\n\
         retries = 1\nretry_wait = \"50ms\"\n",
    );
    for seed in 0..models {
        zoo.add_model(&format!("{seed:02}.safetensors"), 1 << 16, seed);
    }
    let made: Value = serde_json::from_str(&zoo.plan(3).expect(0).stdout).unwrap();
    assert_eq!((made["jobs"].as_u64(), made["pieces"].as_u64()), (Some(models), Some(models.div_ceil(3))));
    zoo
}

fn digests(zoo: &Zoo) -> BTreeMap<PathBuf, String> {
    let out = zoo.path("out");
    zoo.outputs()
        .into_keys()
        .map(|file| (file.clone(), sha256(&fs::read(out.join(&file)).unwrap())))
        .collect()
}

/// Returns the commits that the plan's journals record as done, by output.
fn done(zoo: &Zoo) -> BTreeMap<String, BTreeSet<String>> {
    let mut done: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for piece in fs::read_dir(zoo.path("zoo.plan/journal")).unwrap().flatten() {
        for journal in fs::read_dir(piece.path()).unwrap().flatten() {
            for line in fs::read_to_string(journal.path()).unwrap().lines() {
                let record: Value = serde_json::from_str(line).unwrap();
                if record["event"] == "done" {
                    let text = |key: &str| record[key].as_str().unwrap().to_owned();
                    done.entry(text("output")).or_default().insert(text("key"));
                }
            }
        }
    }
    done
}

fn quiet(command: &mut Command) -> Child {
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn shards_and_claims_do_each_piece_once_and_read_no_other() {
    let zoo = planned(10);
    let _ = zoo.plan(3).expect(2).says(&["the plan already exists"]);
    let piece = |number: u64| zoo.path("zoo.plan/pieces").join(format!("{number:05}.jsonl"));
    fs::rename(piece(1), zoo.path("away")).unwrap();
    let _ =
        run(&mut zoo.on_plan("run", &["--shard", "1/2", "--quiet"])).expect(0).prints(&["6 jobs: 6 done"]);
    assert_eq!(zoo.outputs().len(), 6);
    fs::rename(zoo.path("away"), piece(1)).unwrap();
    let mut workers: Vec<Child> = (0..3).map(|_| quiet(&mut zoo.on_plan("work", &["--pull"]))).collect();
    for worker in &mut workers {
        assert!(worker.wait().unwrap().success());
    }
    let standing = zoo.outputs();
    assert_eq!(standing.len(), 10);
    assert!(done(&zoo).values().all(|keys| keys.len() == 1));
    let journals = || fs::read_dir(zoo.path("zoo.plan/journal/00000")).unwrap().count();
    let before = journals();
    let _ = run(&mut zoo.on_plan("run", &[])).expect(0).prints(&["10 jobs: 10 unchanged"]);
    assert_eq!(zoo.outputs(), standing);
    assert_eq!(journals(), before, "a worker without work writes no journal");
    // The outputs are equal to the outputs of a manifest run.
    let planned = digests(&zoo);
    fs::remove_dir_all(zoo.path("out")).unwrap();
    let _ = zoo.run(&["--quiet"]).expect(0);
    assert_eq!(digests(&zoo), planned);
}

#[test]
fn a_worker_does_what_it_is_given_and_tells_of_it() {
    let zoo = Zoo::new();
    for seed in 0..5 {
        zoo.add_model(&format!("{seed}.safetensors"), 1 << 16, seed);
    }
    zoo.write("in/3.safetensors", b"\x10\0\0\0\0\0\0\0{not a header..}");
    let _ = zoo.plan(2).expect(0);
    let pid = std::process::id().to_string();
    let mut command = zoo.on_plan("work", &["--runner", &pid]);
    let mut worker = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = worker.stdin.take().unwrap();
    for piece in [1, 0, 7] {
        writeln!(input, "{{\"piece\":{piece}}}").unwrap();
    }
    drop(input);
    let lines = BufReader::new(worker.stdout.take().unwrap()).lines();
    let events: Vec<Value> = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert!(worker.wait().unwrap().success());
    let of = |event: &str| -> Vec<&Value> { events.iter().filter(|found| found["event"] == event).collect() };
    let ended = of("piece-done");
    assert_eq!(ended.iter().map(|event| event["piece"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 0]);
    assert_eq!(
        (&ended[0]["done"], &ended[0]["failed"], &ended[0]["exit_code"]),
        (&1.into(), &1.into(), &3.into())
    );
    let failure = &ended[0]["failures"][0];
    assert_eq!((&failure["name"], &failure["passing"]), (&"in/3.safetensors".into(), &false.into()));
    assert_eq!((&ended[1]["done"], &ended[1]["exit_code"]), (&2.into(), &0.into()));
    assert_eq!(of("piece-began").len(), 2);
    assert_eq!(
        (&of("piece-failed")[0]["piece"], &of("piece-failed")[0]["exit_code"]),
        (&7.into(), &2.into())
    );
    let _ = run(&mut zoo.on_plan("run", &[])).expect(3).prints(&["1 failed, 1 done, 3 unchanged"]);
    let _ = run(&mut zoo.on_plan("run", &["--dry-run"])).expect(2).says(&["--dry-run is for a manifest"]);
    let _ =
        zoo.ferry.run(["run".as_ref(), zoo.path("in").as_os_str()]).expect(2).says(&["this is not a plan"]);
}

/// Tests a worker that freezes between its journal record and its commit. A different worker takes
/// over the piece, and the frozen worker continues when everything is done.
#[test]
fn a_worker_that_wakes_late_does_no_harm() {
    for stage in ["journal-commit-written@2", "journal-done@1", "sealed@1", "file-renamed@1", "committed@1"] {
        let zoo = planned(3);
        let mut command = zoo.on_plan("run", &["--quiet", "--jobs", "1"]);
        command.env("FERRY_FAULT", format!("{stage}=stop")).stdout(Stdio::null()).stderr(Stdio::piped());
        let frozen = command.spawn().unwrap();
        // The fault stops the runner or the process of a job. Then all processes of the worker are
        // stopped.
        zoo.wait_until_stopped(frozen.id());
        kill_process(Pid::from_child(&frozen), Signal::STOP).unwrap();
        let taken_over = run(&mut zoo.on_plan("run", &["--quiet"]));
        let standing = zoo.outputs();
        let woken = wake(frozen);
        let told = String::from_utf8_lossy(&woken.stderr);
        assert_eq!(
            (taken_over.code, woken.status.code()),
            (Some(0), Some(0)),
            "{stage}: {taken_over}; the other: {told}"
        );
        assert_eq!((standing.len(), &zoo.outputs()), (3, &standing), "{stage}");
        let _ = run(&mut zoo.on_plan("run", &[])).expect(0).prints(&["3 jobs: 3 unchanged"]);
        assert!(done(&zoo).len() == 3 && done(&zoo).values().all(|keys| keys.len() == 1), "{stage}");
        zoo.nothing_is_staged();
    }
}

#[test]
fn what_somebody_else_made_is_not_taken_for_another_worker_s() {
    let zoo = planned(3);
    zoo.write("out/01.safetensors", b"mine");
    let outcome = run(&mut zoo.on_plan("run", &[])).expect(3).prints(&["1 failed, 2 done"]);
    let _ = outcome.says(&["exists"]);
    assert_eq!(fs::read(zoo.path("out/01.safetensors")).unwrap(), b"mine");
}

#[test]
fn what_a_manifest_says_of_its_jobs_together_holds_or_is_named() {
    let zoo = Zoo::new();
    zoo.add_model("a.safetensors", 1 << 16, 1);
    zoo.manifest(
        "[run]\nmemory = \"64MiB\"\nrate = \"1GB\"\njobs = 2\n[[zoo]]\nroot = \"in\"\noutput = \"out/{path}.pt\"\n",
    );
    let _ = zoo.plan(1).expect(0).says(&["ignores these settings of [run]: jobs, rate"]);
    let header: Value = serde_json::from_slice(&fs::read(zoo.path("zoo.plan/plan.json")).unwrap()).unwrap();
    let job: Value =
        serde_json::from_slice(&fs::read(zoo.path("zoo.plan/pieces/00000.jsonl")).unwrap()).unwrap();
    assert_eq!((&header["memory"], &job["memory"]), (&(64 << 20).into(), &(4 << 20).into()));
}

#[test]
fn a_plan_of_a_data_set_has_its_schema() {
    let zoo = Zoo::new();
    zoo.write("rows/a.jsonl", b"{\"x\": 1}\n");
    zoo.write("rows/b.jsonl", b"{\"x\": 2.5, \"y\": \"z\"}\n");
    zoo.manifest("[[dataset]]\nroot = \"rows\"\noutput = \"out/{stem}.parquet\"\n");
    let _ = zoo.plan(1).expect(0);
    for shard in ["1/2", "2/2"] {
        let _ = run(&mut zoo.on_plan("run", &["--shard", shard])).expect(0).prints(&["1 job: 1 done"]);
    }
    let columns = |name: &str| {
        let words = ["inspect".into(), zoo.path(name).into_os_string(), "--json".into()];
        let seen: Value = serde_json::from_str(&zoo.ferry.run(words).expect(0).stdout).unwrap();
        let columns = seen["schema"].as_array().unwrap().iter();
        columns.map(|column| format!("{} {}", column["name"], column["type"])).collect::<Vec<_>>()
    };
    let expected = [r#""x" "float64""#, r#""y" "utf8""#];
    assert_eq!(columns("out/a.parquet"), expected);
    assert_eq!(columns("out/b.parquet"), expected);
}
