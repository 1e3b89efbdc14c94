//! Tests that a fault in one job fails only that job, with the reason.

use tensorferry_tests::zoo::Zoo;

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
        assert!(outcome.stderr.contains(&format!("retrying in {wait}")), "{outcome}");
    }
    assert_eq!(zoo.report()["jobs"][0]["attempts"], 3);
    zoo.add_model("a.safetensors", 1 << 19, 2);
    let _ = run("copied=enospc").expect(5);
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

/// Tests a journal on a full disk. Without a journal, no output can become visible, so waiting jobs
/// are not started, and stages are removed.
#[test]
fn a_journal_whose_disk_is_full_ends_the_run() {
    let zoo = Zoo::new();
    for seed in 0..4 {
        zoo.add_model(&format!("{seed}.safetensors"), 1 << 16, seed);
    }
    let mut command = zoo.command(&["--jobs", "1"]);
    let outcome =
        tensorferry_tests::ferry::run(command.env("FERRY_FAULT", "journal-commit=enospc")).expect(5);
    let _ = outcome.prints(&["4 jobs: 1 failed, 3 not done"]).says(&["error: the requested fault"]);
    assert!(zoo.outputs().is_empty());
    zoo.nothing_is_staged();
}
