//! What goes wrong in one job ends that job, with its reason, and no other.
#![expect(clippy::unwrap_used, reason = "tests")]

mod outside;

use serde_json::Value;
use tensorferry_tests::disk::on_tmpfs;
use tensorferry_tests::zoo::Zoo;

/// The failure of a job of the last run.
fn failure(zoo: &Zoo, name: &str) -> Value {
    let report = zoo.report();
    let job = report["jobs"].as_array().unwrap().iter().find(|job| job["name"] == name);
    job.unwrap_or_else(|| panic!("no job {name}"))["failure"].clone()
}

#[test]
fn a_plugin_that_cannot_be_stopped_by_an_error() {
    let zoo = Zoo::new();
    zoo.ferry.add_plugin(&outside::library("misbehave"));
    for name in ["abort", "loop", "eat"] {
        zoo.write(&format!("in/{name}.misbehave"), format!("MISBEHAVE!{name}").as_bytes());
    }
    zoo.write("in/good.misbehave", b"MISBEHAVEsome bytes");
    zoo.write("in/malformed.safetensors", b"\xff\xff\0\0\0\0\0\0{}");
    for number in 0..8 {
        zoo.add_model(&format!("{number}.safetensors"), 1 << 18, number);
    }
    zoo.manifest(
        "[defaults]\ntimeout = \"5s\"\nmemory_limit = \"256MiB\"\n\
         [[zoo]]\nroot = \"in\"\noutput = \"out/{name}.safetensors\"\n",
    );
    // One process at a time, so that each that is lost must be replaced; then several.
    for jobs in ["1", "3"] {
        let _ = std::fs::remove_dir_all(zoo.path("out"));
        let outcome = zoo.run(&["--jobs", jobs]).expect(3);
        assert!(outcome.stdout.contains("13 jobs: 4 failed, 9 done"), "{outcome}");
        assert_eq!(zoo.jobs("failed").len(), 4);
        let abort = failure(&zoo, "in/abort.misbehave");
        assert_eq!((&abort["kind"], &abort["signal"]), (&"crashed".into(), &6.into()), "{abort}");
        assert_eq!(failure(&zoo, "in/loop.misbehave")["kind"], "timed out");
        let eat = failure(&zoo, "in/eat.misbehave");
        assert_eq!(eat["kind"], "crashed");
        assert!(
            eat.to_string().contains("memory allocation of") && eat.to_string().contains("256 MiB"),
            "{eat}"
        );
        let malformed = failure(&zoo, "in/malformed.safetensors");
        assert_eq!(
            (&malformed["kind"], &malformed["exit_code"]),
            (&"malformed".into(), &3.into()),
            "{malformed}"
        );
        assert!(
            malformed["retry"].as_str().unwrap().contains("--only in/malformed.safetensors"),
            "{malformed}"
        );
        zoo.nothing_is_staged();
    }
    // The rest is done: only what failed is tried again.
    let _ = zoo.run(&[]).expect(3);
    assert_eq!((zoo.total("unchanged"), zoo.total("failed")), (9, 4));
    let _ = zoo.run(&["--fail-fast", "--jobs", "1"]).expect(3);
    assert_eq!(zoo.total("failed"), 1);
}

#[test]
fn a_full_disk_fails_what_does_not_fit() {
    let zoo = Zoo::new();
    zoo.add_model("big.safetensors", 32 << 20, 1);
    zoo.add_model("small.safetensors", 1 << 18, 2);
    std::fs::create_dir(zoo.path("full")).unwrap();
    zoo.manifest(
        "[[job]]\ninput = \"in/big.safetensors\"\noutput = \"full/big.pt\"\n\
         [[job]]\ninput = \"in/small.safetensors\"\noutput = \"full/small.pt\"\n\
         [[job]]\ninput = \"in/big.safetensors\"\noutput = \"out/big.pt\"\nname = \"elsewhere\"\n",
    );
    let Some((outcome, left)) = on_tmpfs(&zoo.path("full"), "size=8m", &zoo.command(&[])) else {
        eprintln!("no tmpfs can be mounted here: a full disk is not tried");
        return;
    };
    let _ = outcome.expect(3).says(&["full/big.pt", "space"]);
    assert_eq!(left, ["small.pt", "small.pt.ferry.json"]);
    assert_eq!(failure(&zoo, "full/big.pt")["exit_code"], 5);
    assert_eq!(zoo.jobs("done"), ["elsewhere", "full/small.pt"]);
}

/// Faults are looked at by builds with debug assertions only.
#[cfg(debug_assertions)]
#[test]
fn only_a_passing_fault_is_tried_again() {
    let zoo = Zoo::new();
    zoo.add_model("a.safetensors", 1 << 18, 1);
    zoo.manifest(
        "[defaults]\nretries = 2\nretry_wait = \"10ms\"\n[[zoo]]\nroot = \"in\"\noutput = \"out/{stem}.pt\"\n",
    );
    let run = |fault: &str| tensorferry_tests::ferry::run(zoo.command(&[]).env("FERRY_FAULT", fault));
    let outcome = run("copied=eio").expect(75);
    for wait in ["0.01 s", "0.04 s"] {
        assert!(outcome.stderr.contains(&format!("is tried again in {wait}")), "{outcome}");
    }
    assert_eq!(zoo.report()["jobs"][0]["attempts"], 3);
    zoo.add_model("a.safetensors", 1 << 19, 2);
    let _ = run("copied=enospc").expect(3);
    assert_eq!(zoo.report()["jobs"][0]["attempts"], 1);
}

#[test]
fn a_journal_that_cannot_be_written_ends_the_run() {
    let zoo = Zoo::new();
    zoo.add_model("a.safetensors", 1 << 18, 1);
    let nowhere = zoo.path("nowhere/journal");
    let _ = zoo.run(&["--journal", nowhere.to_str().unwrap()]).expect(5).says(&["journal"]);
    assert!(zoo.outputs().is_empty());
}
