//! Tests that a killed run over a dataset can be continued.

use std::fs;
use std::path::Path;
use std::time::Instant;
use tensorferry_test_kit::random::Random;
use tensorferry_tests::dataset::{UNITS, check_rows, dataset};
use tensorferry_tests::host::{RUN_STAGES, STAGES};
use tensorferry_tests::settings::kills;
use tensorferry_tests::zoo::{Standing, Zoo, children, kill};

/// Returns the outputs that have a receipt, after checking that the outputs in `before` have not
/// been written again.
fn standing(zoo: &Zoo, before: &Standing, what: &str) -> Standing {
    let now = zoo.outputs();
    for (output, facts) in before {
        assert_eq!(now.get(output), Some(facts), "{what}: {} was written again", output.display());
    }
    let receipt = |file: &Path| zoo.path("out").join(format!("{}.ferry.json", file.display()));
    now.into_iter().filter(|(file, _)| receipt(file).exists()).collect()
}

fn reset(zoo: &Zoo) {
    for entry in fs::read_dir(zoo.home()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() && name != "in" {
            fs::remove_dir_all(&path).unwrap();
        } else if name != "in" && name != "zoo.toml" {
            fs::remove_file(&path).unwrap();
        }
    }
}

fn end(zoo: &Zoo, before: &Standing, what: &str) {
    zoo.forget_report();
    let outcome = zoo.run(&["--quiet"]);
    assert_eq!(outcome.code, Some(0), "{what}: {outcome}");
    assert_eq!(standing(zoo, before, what).len() as u64, UNITS, "{what}");
    assert!(zoo.total("done") + before.len() as u64 <= UNITS, "{what}");
    check_rows(zoo);
    zoo.nothing_is_staged();
}

#[test]
#[ignore = "kills processes"]
fn killed_at_random_moments() {
    let kills = kills(8);
    let zoo = dataset();
    let start = Instant::now();
    let _ = zoo.run(&["--quiet"]).expect(0);
    let whole = start.elapsed();
    let mut random = Random::new(kills);
    let mut hits = 0;
    for round in 0..kills {
        reset(&zoo);
        let mut stands = Standing::new();
        for again in 0..=round % 3 {
            let mut runner = zoo.start(&["--quiet"]);
            std::thread::sleep(whole * u32::try_from(random.below(1000)).unwrap() / 1000);
            let own = children(runner.id());
            let is_child = random.below(3) == 0 && !own.is_empty();
            if is_child {
                kill(own[random.below(own.len())]);
            } else {
                hits += u64::from(runner.try_wait().unwrap().is_none());
                runner.kill().unwrap();
            }
            let code = runner.wait().unwrap().code();
            assert!(matches!(code, None | Some(0 | 3)), "{code:?}");
            stands = standing(&zoo, &stands, &format!("round {round}.{again}"));
        }
        end(&zoo, &stands, &format!("round {round}"));
    }
    println!("{hits} runners killed in {kills} rounds of {whole:?}");
    assert!(hits > 0);
}

#[test]
#[ignore = "kills processes"]
fn killed_at_every_stage() {
    let zoo = dataset();
    let mut reached = Vec::new();
    for stage in RUN_STAGES.iter().chain(&STAGES) {
        reset(&zoo);
        let mut command = zoo.command(&["--quiet", "--jobs", "1"]);
        let outcome = tensorferry_tests::ferry::run(command.env("FERRY_FAULT", format!("{stage}@1")));
        match outcome.code {
            None => assert!(RUN_STAGES.contains(stage), "{stage}"),
            // The fault is set in every job process, so that retries are also killed.
            Some(3) => assert!(outcome.stderr.contains("SIGKILL"), "{stage}: {outcome}"),
            code => assert_eq!(code, Some(0), "{stage}: {outcome}"),
        }
        if outcome.code != Some(0) {
            reached.push(*stage);
        }
        let stands = standing(&zoo, &Standing::new(), stage);
        end(&zoo, &stands, stage);
    }
    for stage in RUN_STAGES {
        assert!(reached.contains(&stage), "{stage} was not reached");
    }
    assert!(reached.len() >= RUN_STAGES.len() + 7, "{reached:?}");
}
