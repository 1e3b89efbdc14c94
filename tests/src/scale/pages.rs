//! The tables of the guide's chapter on large runs.

use super::cluster::simulate;
use super::outcome::{Limit, Outcome};
use super::settings::{SECOND, Settings, Way};
use std::sync::Mutex;

/// Prefixes that are enough for the store to be no limit.
const MANY_PREFIXES: u64 = 64;

/// Each table as the chapter has it, in order.
pub fn tables() -> Vec<String> {
    let grown = |settings: &Settings, prefixes: u64| {
        let nodes = [100, 300, 1000, 3000, 10_000];
        nodes.map(|workers| (grouped(workers), Settings { workers, prefixes, ..settings.clone() }))
    };
    let large = Settings { prefixes: MANY_PREFIXES, ..Settings::petabyte() };
    let of = |name: &str, settings: Settings| (name.to_owned(), settings);
    let pieces = [1, 10, 100].map(|piece_jobs| {
        let name = format!("{} of {piece_jobs}", grouped(large.jobs / piece_jobs));
        (name, Settings { piece_jobs, ..large.clone() })
    });
    let tens = Settings { piece_jobs: 10, ..large.clone() };
    let ways = vec![
        of("1,000 tasks, each with its part", Settings { way: Way::Shards, ..tens.clone() }),
        // A task of an array is a piece that the scheduler hands out: Slurm gives a silent node five minutes, and a task that is
        // requeued two.
        of(
            "10,000 tasks, 1,000 at a time",
            Settings {
                way: Way::Leases,
                claim_time: SECOND,
                piece_look_time: 0,
                silent_for: 420 * SECOND,
                ..large.clone()
            },
        ),
        of("leases", Settings { way: Way::Leases, ..tens.clone() }),
        of("a driver, two pieces in flight", tens.clone()),
        of("a driver, one piece in flight", Settings { in_flight: 1, ..tens.clone() }),
    ];
    let many = Settings { workers: 10_000, ..tens.clone() };
    let asked = [200, 500, 1000].map(|questions| {
        (format!("{} questions/s", grouped(questions)), Settings { questions, ..many.clone() })
    });
    let often = |times: u64| tens.clone().with_more_faults(times);
    let mut faults = [1, 10, 100].map(|times| (format!("{times} x"), often(times))).to_vec();
    faults.push(of("100 x, zombies stop", Settings { zombies_stop: true, ..often(100) }));
    let small = Settings::small_models();
    let some = |[few, _, more, _, most]: [(String, Settings); 5]| [few, more, most];
    let borne = [
        of("1 GiB, 1,000 nodes", tens.clone()),
        of("the same, by leases", Settings { way: Way::Leases, ..tens.clone() }),
        of("1 GiB, 10,000 nodes", many.clone()),
        of("the same, by leases", Settings { way: Way::Leases, ..many }),
        of("10 MiB, 1,000 nodes", Settings { prefixes: MANY_PREFIXES, ..small.clone() }),
    ];
    write(&[
        ("nodes", GROWTH, grown(&large, 1).to_vec()),
        ("nodes", GROWTH, grown(&large, MANY_PREFIXES).to_vec()),
        ("nodes", GROWTH, some(grown(&small, 1)).to_vec()),
        ("nodes", GROWTH, some(grown(&small, MANY_PREFIXES)).to_vec()),
        ("pieces", GROWTH, pieces.to_vec()),
        ("1,000 nodes", GROWTH, ways),
        ("10,000 nodes", GROWTH, asked.to_vec()),
        ("faults", FAULTS, faults),
        ("", BORNE, borne.to_vec()),
    ])
}

/// What stands above the rows' names, the columns, and the rows: each a name and what is simulated.
type Table = (&'static str, &'static [Column], Vec<(String, Settings)>);

/// A column: its heading, and what stands in it.
type Column = (&'static str, fn(&Outcome) -> String);

const GROWTH: &[Column] = &[
    ("ideal", |outcome| seconds(outcome.ideal)),
    ("takes", |outcome| seconds(outcome.makespan)),
    ("useful", |outcome| format!("{:.0} %", outcome.efficiency())),
    ("PUT/s", |outcome| grouped(outcome.puts_per_second())),
    ("folder", |outcome| format!("{}/s", grouped(outcome.folder_operations_per_second()))),
    ("driver", |outcome| format!("{:.0} %", outcome.driver())),
    ("most is lost by", |outcome| limit(outcome).to_owned()),
];

const FAULTS: &[Column] = &[
    ("takes", |outcome| seconds(outcome.makespan)),
    ("died", |outcome| grouped(outcome.crashes)),
    ("taken away", |outcome| grouped(outcome.preemptions)),
    ("froze", |outcome| grouped(outcome.freezes)),
    ("zombies", |outcome| grouped(outcome.zombies)),
    ("refused commits", |outcome| grouped(outcome.refused)),
    ("found", |outcome| grouped(outcome.found)),
    ("lost work", |outcome| format!("{:.2} %", outcome.lost())),
    ("useful", |outcome| format!("{:.0} %", outcome.efficiency())),
];

const BORNE: &[Column] = &[
    ("journals", |outcome| format!("{:.2} GB", outcome.journal as f64 / 1e9)),
    ("of which", |outcome| format!("{} kB/s", grouped(outcome.journal * 1000 / outcome.makespan.max(1)))),
    ("folder", |outcome| format!("{}/s", grouped(outcome.folder_operations_per_second()))),
    ("outputs", |outcome| format!("{} PUT/s", grouped(outcome.puts_per_second()))),
    ("calls", |outcome| grouped(outcome.calls)),
    ("driver", |outcome| format!("{:.0} %", outcome.driver())),
];

fn limit(outcome: &Outcome) -> &'static str {
    match outcome.limit() {
        Limit::Store => "the store",
        Limit::Driver => "the driver",
        Limit::Pieces => "the last pieces",
        Limit::Nodes => "the nodes",
    }
}

/// Simulates what there is in the rows of all tables, each once and as many at a time as there are processors, and writes the tables.
fn write(tables: &[Table]) -> Vec<String> {
    let mut different: Vec<&Settings> = Vec::new();
    for (_, settings) in tables.iter().flat_map(|(.., rows)| rows) {
        if !different.contains(&settings) {
            different.push(settings);
        }
    }
    let outcomes = outcomes(&different);
    let outcome = |settings: &Settings| {
        let at = different.iter().position(|known| *known == settings);
        &outcomes[at.expect("all were simulated")]
    };
    let table = |(first, columns, rows): &Table| {
        let heading = std::iter::once(*first).chain(columns.iter().map(|(name, _)| *name));
        let row = |(name, settings): &(String, Settings)| {
            let cells = columns.iter().map(|(_, cell)| cell(outcome(settings)));
            std::iter::once(name.clone()).chain(cells).collect()
        };
        let heading = heading.map(str::to_owned).collect();
        aligned(&std::iter::once(heading).chain(rows.iter().map(row)).collect::<Vec<_>>())
    };
    tables.iter().map(table).collect()
}

/// The first column to the left, the others to the right.
fn aligned(lines: &[Vec<String>]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let line = |line: &Vec<String>| {
        let cells = line[1..].iter().zip(&widths[1..]).map(|(cell, width)| format!("  {cell:>width$}"));
        format!("{:<width$}{}\n", line[0], cells.collect::<String>(), width = widths[0])
    };
    lines.iter().map(line).collect()
}

fn outcomes(settings: &[&Settings]) -> Vec<Outcome> {
    let next = Mutex::new(settings.iter().enumerate());
    let outcomes = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let one = next.lock().unwrap().next();
                    let Some((at, settings)) = one else { break };
                    let outcome = simulate(settings);
                    outcomes.lock().unwrap().push((at, outcome));
                }
            });
        }
    });
    let mut outcomes: Vec<(usize, Outcome)> = outcomes.into_inner().unwrap();
    outcomes.sort_by_key(|(at, _)| *at);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

fn seconds(time: u64) -> String {
    format!("{} s", grouped(time / SECOND))
}

/// `12,345`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
