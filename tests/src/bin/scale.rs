//! Simulates a run on a cluster, and prints where its time went and what its driver, its journals and its store had to bear.

use tensorferry_tests::scale::{Outcome, Settings, Times, Way, simulate};

const USAGE: &str = "usage: scale [shards|leases|driver] [zombies-stop] [NAME=NUMBER]...\n\
    names are the fields of tests/src/scale/settings.rs, times are microseconds; faults=10 has them ten times as often";

fn main() {
    match settings(std::env::args().skip(1)) {
        Some(settings) => print(&simulate(&settings)),
        None => {
            eprintln!("{USAGE}");
            std::process::exit(2);
        }
    }
}

fn settings(words: impl Iterator<Item = String>) -> Option<Settings> {
    let mut settings = Settings::petabyte();
    for word in words {
        match (word.as_str(), word.split_once('=')) {
            ("shards", _) => settings.way = Way::Shards,
            ("leases", _) => settings.way = Way::Leases,
            ("driver", _) => settings.way = Way::Driver,
            ("zombies-stop", _) => settings.zombies_stop = true,
            (_, Some(("faults", times))) => settings = settings.with_more_faults(times.parse().ok()?),
            (_, Some((name, value))) if settings.set(name, value.parse().ok()?) => {}
            _ => return None,
        }
    }
    Some(settings)
}

fn print(outcome: &Outcome) {
    let seconds = |time: u64| time as f64 / 1e6;
    println!("takes           {:14.1} s, ideally {:.1} s", seconds(outcome.makespan), seconds(outcome.ideal));
    let Times { useful, slow, lost, looking, store, asking, idle, down, frozen } = outcome.times;
    for (name, time) in [
        ("useful", useful),
        ("slow nodes", slow),
        ("lost work", lost),
        ("looking", looking),
        ("store", store),
        ("asking", asking),
        ("idle", idle),
        ("down", down),
        ("frozen", frozen),
    ] {
        println!("{name:15} {:14.1} %", 100.0 * time as f64 / outcome.times.sum() as f64);
    }
    println!("most is lost by {:>16?}", outcome.limit());
    for (name, count) in [
        ("died", outcome.crashes),
        ("taken away", outcome.preemptions),
        ("froze", outcome.freezes),
        ("zombies", outcome.zombies),
        ("refused commits", outcome.refused),
        ("found", outcome.found),
        ("outputs' PUT/s", outcome.puts_per_second()),
        ("folder's op/s", outcome.folder_operations_per_second()),
        ("journals' bytes", outcome.journal),
        ("driver's calls", outcome.calls),
    ] {
        println!("{name:15} {count:16}");
    }
    println!("driver          {:14.1} %", outcome.driver());
}
