//! Tests of runs that are killed at random moments and at every stage. The next run must complete
//! the work. Every output must be complete and correct, and committed outputs must not be written
//! again.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tensorferry_test_kit::fixtures::sha256;
use tensorferry_test_kit::random::Random;
use tensorferry_tests::host::{RUN_STAGES, STAGES};
use tensorferry_tests::settings::{kills, large};
use tensorferry_tests::zoo::{Standing, Zoo, children, kill};

/// A zoo of small and large models, and the expected outputs.
struct Scene {
    zoo: Zoo,
    expected: BTreeMap<PathBuf, String>,
}

impl Scene {
    fn new(small: u64, big: u64, bytes: u64) -> Self {
        let zoo = Zoo::new();
        for seed in 0..small {
            zoo.add_model(&format!("small/{seed}.safetensors"), 1 << 18, seed);
        }
        for seed in 0..big {
            zoo.add_model(&format!("big/{seed}.safetensors"), bytes, 1000 + seed);
        }
        let _ = zoo.run(&["--quiet"]).expect(0);
        let out = zoo.path("out");
        let digest = |file: &PathBuf| (file.clone(), sha256(&fs::read(out.join(file)).unwrap()));
        let expected = zoo.outputs().keys().map(digest).collect();
        Self { zoo, expected }
    }

    fn reset(&self) {
        for name in ["out", "zoo.report"] {
            let _ = fs::remove_dir_all(self.zoo.path(name));
        }
        let _ = fs::remove_file(self.zoo.path("zoo.journal.jsonl"));
    }

    /// Checks that outputs are complete, and that those in `before` are unchanged.
    fn check(&self, before: &Standing, what: &str) -> Standing {
        let now = self.zoo.outputs();
        for (file, facts) in before {
            assert_eq!(now.get(file), Some(facts), "{what}: {} was written again", file.display());
        }
        for (file, facts) in now.iter().filter(|(file, facts)| before.get(*file) != Some(*facts)) {
            let (expected, path) = (self.expected.get(file), self.zoo.path("out").join(file));
            assert_eq!(
                Some(&sha256(&fs::read(&path).unwrap())),
                expected,
                "{what}: {} is wrong ({facts:?})",
                path.display()
            );
        }
        // The receipt of an output becomes visible last, so an output without a receipt is written
        // again.
        let receipt = |file: &PathBuf| self.zoo.path("out").join(format!("{}.ferry.json", file.display()));
        now.into_iter().filter(|(file, _)| receipt(file).exists()).collect()
    }

    /// Runs the zoo until all jobs are done.
    fn end(&self, before: &Standing, what: &str) {
        self.zoo.forget_report();
        let outcome = self.zoo.run(&["--quiet"]);
        assert_eq!(outcome.code, Some(0), "{what}: {outcome}");
        let now = self.check(before, what);
        assert_eq!(now.len(), self.expected.len(), "{what}");
        self.zoo.nothing_is_staged();
        let done = usize::try_from(self.zoo.total("done")).unwrap();
        assert!(done + before.len() <= self.expected.len(), "{what}: {done} done after {}", before.len());
    }
}

#[test]
#[ignore = "kills processes"]
fn killed_at_random_moments() {
    let kills = kills(20);
    let scene = Scene::new(24, 2, large(16 << 20));
    scene.reset();
    let start = Instant::now();
    let _ = scene.zoo.run(&["--quiet"]).expect(0);
    let mut whole = start.elapsed();

    let mut random = Random::new(kills);
    let (mut hits, mut rounds) = (0, 0);
    while hits < kills {
        assert!(rounds < 10 * kills, "only {hits} of {rounds} rounds of {whole:?} were killed while running");
        scene.reset();
        let mut standing = Standing::new();
        // Some runs are killed several times in a row.
        for again in 0..=rounds % 3 {
            let start = Instant::now();
            let mut runner = scene.zoo.start(&["--quiet"]);
            let moment = whole * u32::try_from(random.below(1000)).unwrap() / 1000;
            while start.elapsed() < moment && runner.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_millis(2));
            }
            let what = ["runner", "child", "both"][random.below(3)];
            if runner.try_wait().unwrap().is_none() {
                let own = children(runner.id());
                let child = (!own.is_empty()).then(|| own[random.below(own.len())]);
                if let Some(child) = child.filter(|_| what != "runner") {
                    kill(child);
                }
                if what != "child" {
                    runner.kill().unwrap();
                }
                hits += u64::from(what != "child" || child.is_some());
            } else if standing.is_empty() {
                // The run ended before the kill, because the machine was busier when the full run
                // was measured.
                whole = whole.min(start.elapsed());
            }
            let code = runner.wait().unwrap().code();
            assert!(matches!(code, None | Some(0 | 3)), "{what}: {code:?}");
            standing = scene.check(&standing, &format!("round {rounds}.{again}, {what} after {moment:?}"));
        }
        scene.end(&standing, &format!("round {rounds}"));
        rounds += 1;
    }
    println!("{hits} kills of running programs in {rounds} rounds of {whole:?}");
}

#[test]
#[ignore = "kills processes"]
fn killed_at_every_stage() {
    let scene = Scene::new(3, 0, 0);
    let mut reached = 0;
    for stage in RUN_STAGES.iter().chain(&STAGES) {
        for time in 1..=2 {
            scene.reset();
            let fault = format!("{stage}@{time}");
            let mut command = scene.zoo.command(&["--quiet", "--jobs", "1"]);
            let outcome = tensorferry_tests::ferry::run(command.env("FERRY_FAULT", &fault));
            let in_runner = RUN_STAGES.contains(stage);
            match outcome.code {
                // Either the runner or one of its jobs was killed.
                None => assert!(in_runner, "{fault}"),
                Some(3) => assert!(!in_runner && outcome.stderr.contains("SIGKILL"), "{fault}: {outcome}"),
                code => assert_eq!(code, Some(0), "{fault}: {outcome}"),
            }
            reached += u32::from(outcome.code != Some(0));
            let standing = scene.check(&Standing::new(), &fault);
            scene.end(&standing, &fault);
        }
    }
    // The faults must reach every stage of the runner twice, and every stage of a job that writes
    // one file.
    assert!(reached >= 9 + 10, "{reached}");
}

#[test]
#[ignore = "kills processes"]
fn a_torn_journal_costs_nothing_that_stands() {
    let scene = Scene::new(4, 0, 0);
    let journal = scene.zoo.path("zoo.journal.jsonl");
    let whole = fs::read(&journal).unwrap();
    let stands = scene.zoo.outputs();
    // Cut the journal within the last record, and then within and after earlier records.
    let ends: Vec<usize> =
        whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
    for cut in [ends[ends.len() - 1] - 3, ends[ends.len() - 2] - 3, ends[ends.len() - 3] + 1] {
        fs::write(&journal, &whole[..cut]).unwrap();
        scene.end(&stands, &format!("cut at {cut}"));
        assert_eq!(scene.zoo.total("unchanged"), 4);
    }
}

#[test]
#[ignore = "kills processes"]
fn one_run_at_a_time() {
    let scene = Scene::new(0, 2, 128 << 20);
    scene.reset();
    let mut first = scene.zoo.start(&["--quiet"]);
    let deadline = Instant::now() + Duration::from_secs(20);
    while children(first.id()).is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Stop the first run, so that it cannot end while the second run checks for other runs.
    kill_process(Pid::from_child(&first), Signal::STOP).unwrap();
    let second = scene.zoo.run(&["--quiet"]);
    if first.try_wait().unwrap().is_none() {
        let _ = second.expect(75).says(&["another run", &first.id().to_string()]);
    }
    // A killed run does not block other runs.
    first.kill().unwrap();
    first.wait().unwrap();
    scene.end(&Standing::new(), "after a kill");
}

#[test]
#[ignore = "kills processes"]
fn an_interrupt_ends_cleanly_and_can_be_resumed() {
    let scene = Scene::new(8, 2, 32 << 20);
    let mut interrupted = 0;
    for (signal, milliseconds) in
        [(Signal::INT, 50), (Signal::TERM, 150), (Signal::INT, 300), (Signal::TERM, 20)]
    {
        scene.reset();
        let mut runner = scene.zoo.start(&["--quiet"]);
        std::thread::sleep(Duration::from_millis(milliseconds));
        kill_process(Pid::from_child(&runner), signal).unwrap();
        let code = runner.wait().unwrap().code();
        match code {
            Some(130) => {
                interrupted += 1;
                scene.zoo.nothing_is_staged();
                assert_eq!(scene.zoo.report()["interrupted"], true);
            }
            // The run was already complete, or could not handle the signal yet.
            Some(0) | None => {}
            code => panic!("{code:?}"),
        }
        let standing = scene.check(&Standing::new(), "interrupted");
        scene.end(&standing, "resumed");
    }
    assert!(interrupted > 0, "no run was interrupted");
}
