//! Tests processes that are killed at random moments and at every stage of the commit. The
//! remaining files must be in a state that the contract allows, and the next run must clean up.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
use tensorferry_test_kit::random::Random;
use tensorferry_tests::ferry::run;
use tensorferry_tests::files::{STAGING, files_below, names_in};
use tensorferry_tests::host::STAGES;
use tensorferry_tests::model::Model;
use tensorferry_tests::rows::numbered;
use tensorferry_tests::settings::{kills, large};
use tensorferry_tests::shape::{Scene, Shape, State};
use tensorferry_tests::{Ferry, args};

fn killed_at_random_moments(shape: Shape) {
    let bytes = large(32 << 20);
    let kills = kills(20);
    let scene = Scene::new(shape, bytes);
    for with_old in [false, true] {
        let options: &[&str] = if with_old { &["--force"] } else { &[] };
        let whole = (0..3).map(|_| {
            scene.reset(with_old);
            let start = Instant::now();
            let _ = scene.run(options).expect(0);
            let elapsed = start.elapsed();
            assert_eq!(scene.state(), State::New);
            elapsed
        });
        let whole = whole.min().unwrap();

        let mut random = Random::new(kills);
        let mut ended = 0;
        for kill in 0..kills {
            scene.reset(with_old);
            let mut child = scene.start(options);
            let moment = whole.mul_f64(1.1) * u32::try_from(random.below(1000)).unwrap() / 1000;
            std::thread::sleep(moment);
            ended += u64::from(child.try_wait().unwrap().is_some());
            child.kill().unwrap();
            child.wait().unwrap();
            scene.may_stand(scene.state(), with_old, &format!("kill {kill} after {moment:?}"));
            scene.next_run_cleans_up();
        }
        println!("{shape:?}, old output: {with_old}: killed {} of {kills} runs of {whole:?}", kills - ended);
        assert!(ended < kills, "every run had ended before it was killed");
    }
}

#[test]
#[ignore = "kills processes"]
fn one_file_killed_at_random_moments() {
    killed_at_random_moments(Shape::File);
}

#[test]
#[ignore = "kills processes"]
fn a_folder_killed_at_random_moments() {
    killed_at_random_moments(Shape::Folder);
}

#[test]
#[ignore = "kills processes"]
fn a_set_killed_at_random_moments() {
    killed_at_random_moments(Shape::Set);
}

#[test]
#[ignore = "kills processes"]
fn a_bundle_killed_at_random_moments() {
    killed_at_random_moments(Shape::Bundle);
}

const SHAPES: [Shape; 4] = [Shape::File, Shape::Folder, Shape::Set, Shape::Bundle];

/// Runs the job of each shape, with and without an old output. A fault occurs the first, second or
/// third time that a stage is reached. The fault is an error with exit code `code`. If it occurs
/// after the commit, the exit code is 0.
fn failed_at_every_stage(kind: &str, code: i32) {
    for shape in SHAPES {
        let scene = Scene::new(shape, 1 << 20);
        for with_old in [false, true] {
            for stage in STAGES {
                for time in 1..=3 {
                    let fault = format!("{stage}@{time}{kind}");
                    scene.reset(with_old);
                    let options: &[&str] = if with_old { &["--verify", "--force"] } else { &["--verify"] };
                    let outcome = run(scene.command(State::New, options).env("FERRY_FAULT", &fault));
                    scene.may_stand(scene.state(), with_old, &fault);
                    let was_reached = outcome.stderr.contains("the requested fault");
                    if outcome.code == Some(0) {
                        assert_eq!(scene.state(), State::New, "{fault}");
                    } else {
                        assert!(was_reached && outcome.code == Some(code), "{fault}: {outcome}");
                    }
                    scene.next_run_cleans_up();
                    if !was_reached {
                        break;
                    }
                }
            }
        }
    }
}

#[test]
#[ignore = "takes minutes"]
fn a_full_disk_at_every_stage() {
    failed_at_every_stage("=enospc", 5);
}

#[test]
#[ignore = "takes minutes"]
fn a_failing_disk_at_every_stage() {
    failed_at_every_stage("=eio", 75);
}

#[test]
#[ignore = "kills processes"]
fn an_interrupt_leaves_nothing() {
    let scene = Scene::new(Shape::File, 64 << 20);
    let mut interrupted = 0;
    for milliseconds in [5, 20, 50, 90, 130] {
        for with_old in [false, true] {
            scene.reset(with_old);
            let options: &[&str] = if with_old { &["--force"] } else { &[] };
            let mut child = scene.start(options);
            std::thread::sleep(Duration::from_millis(milliseconds));
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
            let code = child.wait().unwrap().code();
            let state = scene.state();
            scene.may_stand(state, with_old, "interrupted");
            match code {
                Some(0) => assert_eq!(state, State::New),
                Some(130) => {
                    interrupted += 1;
                    assert_ne!(state, State::New);
                    scene.nothing_is_staged();
                }
                // The signal arrived before the program could handle it.
                None => {}
                Some(code) => panic!("ended with {code} when interrupted"),
            }
        }
    }
    assert!(interrupted > 0, "no run was interrupted");
}

/// Tests that a receipt always describes its output after a kill, and that the next run leaves only
/// its own files. `publish/commit/crash.rs` tests the state of the output itself.
#[test]
#[ignore = "kills processes"]
fn killed_at_every_stage_of_the_commit() {
    let mut killed = BTreeSet::new();
    for (output, options) in [
        ("work/out.pt", &[][..]),
        ("work/model.safetensors", &["-o", "max_shard_size=100KB"]),
        ("work/out/", &["--to", "torch"]),
    ] {
        // Shards of a smaller set have different names.
        let smaller = (!options.is_empty()).then_some(Some(1 << 17));
        for old_size in [None, Some(1 << 18)].into_iter().chain(smaller) {
            for stage in STAGES {
                for time in 1..=3 {
                    let ferry = Ferry::new();
                    let sizes = [("old.safetensors", old_size), ("new.safetensors", Some(1 << 18))];
                    for ((name, size), seed) in sizes.into_iter().zip(1..) {
                        Model::of_size(size.unwrap_or(1), 4, seed).write(&ferry.at(name)).unwrap();
                    }
                    let options = [options, &["--receipt", "--verify", "--force"]].concat();
                    let [old, new, output] = ferry.paths(["old.safetensors", "new.safetensors", output]);
                    if old_size.is_some() {
                        ferry.convert(&old, &output, &options);
                    }
                    let mut command = ferry.command(args!["convert", new, output]);
                    let outcome = run(command.args(&options).env("FERRY_FAULT", format!("{stage}@{time}")));
                    let receipts = files_below(ferry.home()).into_iter().filter(|path| {
                        let text = path.to_string_lossy();
                        text.ends_with(".ferry.json") && !text.contains(STAGING)
                    });
                    if receipts.count() > 0 {
                        ferry.on("verify", ferry.home(), &[]).expect(0);
                    }
                    if outcome.code.is_some() {
                        break;
                    }
                    killed.insert(stage);
                    ferry.convert(&new, &output, &options);
                    ferry.on("verify", ferry.home(), &["--source"]).expect(0);
                    let left = files_below(ferry.home());
                    assert!(!left.iter().any(|path| path.to_string_lossy().contains(STAGING)), "{left:?}");
                }
            }
        }
    }
    let all = ["copied", "sealed", "verified", "file-renamed", "index-renamed", "old-index-removed"];
    for stage in all.into_iter().chain(["folder-renamed", "folder-exchanged", "committed"]) {
        assert!(killed.contains(stage), "{killed:?}");
    }
}

/// Tests kills while files of rows are written, which get their final names only when the last file
/// is complete. A killed program leaves the old files, and the next run leaves the files of only
/// one output.
#[test]
#[ignore = "kills processes"]
fn killed_while_files_of_rows_replace_more_of_them() {
    let mut killed = BTreeSet::new();
    for stage in STAGES {
        for time in 1..=3 {
            let ferry = Ferry::new();
            let input = numbered(&ferry, "rows.jsonl", 0..100);
            let mine = ferry.write("set/mine-00000-of-00009.jsonl", "{}");
            let output = ferry.at("set/x.jsonl");
            ferry.convert(&input, &output, &["-o", "shard_rows=15", "--receipt"]);
            let options = ["-o", "shard_rows=40", "--receipt", "--force"];
            let mut command = ferry.command(args!["convert", input, output]);
            let outcome = run(command.args(options).env("FERRY_FAULT", format!("{stage}@{time}")));
            // If a receipt exists, it describes existing files of either the old or the new output.
            if stage == "old-receipt-removed" && outcome.code.is_none() {
                assert!(!ferry.at("set/x.jsonl.ferry.json").exists());
            } else {
                ferry.on("verify", &output, &[]).expect(0);
            }
            if outcome.code.is_some() {
                break;
            }
            killed.insert(stage);
            ferry.convert(&input, &output, &options);
            ferry.on("verify", &output, &[]).expect(0);
            let mut expected: Vec<String> =
                (0..3).map(|shard| format!("x-{shard:05}-of-00003.jsonl")).collect();
            expected.insert(0, "mine-00000-of-00009.jsonl".to_owned());
            expected.push("x.jsonl.ferry.json".to_owned());
            assert_eq!(names_in(&ferry.at("set")), expected, "{stage}@{time}");
            assert_eq!(std::fs::read(&mine).unwrap(), b"{}");
        }
    }
    for stage in ["copied", "file-renamed", "old-receipt-removed", "index-renamed", "stale-removed"] {
        assert!(killed.contains(stage), "{killed:?}");
    }
}
