//! Runs the attacks in `tests/tests/quick/safety/README.md` with the script that measures their
//! costs.

use std::process::Command;
use tensorferry_tests::ferry;
use tensorferry_tests::workspace::{root, workspace};

#[test]
#[ignore = "minutes; files of hundreds of megabytes"]
fn every_attack_is_answered_in_bounds() {
    let folder = workspace().program.parent().expect("a program is in the target folder");
    let mut attacks = Command::new(root().join("tests/attacks"));
    // Set a longer timeout, because a development build is slow.
    attacks.arg(folder).env("FERRY_TEST_SECONDS", "600");
    let outcome = ferry::run(&mut attacks).expect(0);
    println!("{outcome}");
    assert!(outcome.stdout.lines().count() > 25, "{outcome}");
}
