//! The simulator of large runs keeps the rules of real ones, and the guide has what it says.

use std::collections::BTreeMap;
use tensorferry_tests::guide::Chapter;
use tensorferry_tests::scale::{Limit, Outcome, Settings, Way, simulate, tables};

const WAYS: [Way; 3] = [Way::Shards, Way::Leases, Way::Driver];

/// Small, and so much happens to its nodes that everything happens.
fn rough(way: Way, seed: u64) -> Settings {
    let base = Settings { way, seed, jobs: 20_050, workers: 50, prefixes: 64, ..Settings::petabyte() };
    let slow = Settings { slow_nodes: 100, journal_every: 10_000_000, ..base };
    slow.with_more_faults(100)
}

/// What holds for every run: no time is lost or invented, and nothing is done that counts twice.
fn check(outcome: &Outcome) {
    assert!(outcome.visible.iter().all(|times| *times == 1), "an output is visible twice, or never");
    assert_eq!(outcome.times.sum(), outcome.makespan * outcome.workers, "{:?}", outcome.times);
    let work = outcome.ideal * outcome.workers;
    assert!((work..work + outcome.workers).contains(&outcome.times.useful), "{:?}", outcome.times);
    assert!(outcome.makespan >= outcome.ideal);
}

#[test]
fn every_output_is_visible_once_and_all_time_is_accounted_for() {
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    for (way, seed) in WAYS.into_iter().flat_map(|way| (1..=5).map(move |seed| (way, seed))) {
        for zombies_stop in [false, true] {
            let outcome = simulate(&Settings { zombies_stop, ..rough(way, seed) });
            check(&outcome);
            let Outcome { crashes, preemptions, freezes, zombies, refused, found, .. } = outcome;
            for (what, count) in [
                ("died", crashes),
                ("were taken away", preemptions),
                ("froze", freezes),
                ("were zombies", zombies),
                ("were refused", refused),
                ("were found", found),
            ] {
                *seen.entry(what).or_default() += count;
            }
            // What was done up to ten seconds before a node was gone stands in its journal. Only who wakes and goes on knows nothing
            // of what others did.
            let most = if zombies_stop { 3 * (crashes + freezes) } else { found };
            assert!(found <= most, "{way:?}: {found} outputs were looked for");
            assert!(way != Way::Shards || zombies + refused == 0, "nobody else does a part of an array");
        }
    }
    assert!(seen.values().all(|count| *count > 50), "{seen:?}");
}

#[test]
fn a_seed_gives_the_same_answer() {
    for way in WAYS {
        let [one, again, other] = [1, 1, 2].map(|seed| simulate(&rough(way, seed)));
        assert_eq!(one, again);
        assert_ne!(one, other);
    }
}

#[test]
fn without_faults_nothing_is_done_twice() {
    for way in WAYS {
        let settings = Settings { piece_jobs: 10, ..rough(way, 3) }.without_faults();
        let outcome = simulate(&settings);
        check(&outcome);
        let times = outcome.times;
        assert_eq!((times.lost, times.looking, times.slow, times.down, times.frozen), (0, 0, 0, 0, 0));
        assert_eq!((outcome.refused, outcome.found), (0, 0));
        // What is handed out is done in nearly the time that there is no way around.
        let most = if way == Way::Shards { 140 } else { 115 };
        assert!(outcome.makespan * 100 < outcome.ideal * most, "{way:?}: {times:?}");
    }
}

#[test]
fn the_store_and_the_driver_are_limits() {
    let many = Settings { prefixes: 1, workers: 1000, jobs: 200_000, piece_jobs: 5, ..rough(Way::Leases, 1) };
    let store = simulate(&many.without_faults());
    check(&store);
    assert_eq!(store.limit(), Limit::Store);
    assert!((3000..=3500).contains(&store.puts_per_second()), "{}", store.puts_per_second());
    let slow = Settings { call_time: 1_000_000, piece_jobs: 1, ..rough(Way::Driver, 1) };
    let driver = simulate(&slow.without_faults());
    check(&driver);
    assert_eq!(driver.limit(), Limit::Driver);
}

#[test]
#[ignore = "ten seconds of simulated clusters"]
fn the_guides_tables_are_what_it_says() {
    Chapter::read("scale.md").check_texts(&tables());
}
