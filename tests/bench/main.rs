//! The benchmark: conversions compared with `cp` of the same file and with Python scripts. See
//! README.md in this folder.
//!
//! `cargo run --release --package tensorferry-tests --bin bench -- --rounds 15 --dir FOLDER`
#![expect(clippy::unwrap_used, reason = "a benchmark may panic on any failure")]

mod dequantize;
mod jobs;
mod kinds;
mod machine;
mod records;
mod statistics;
mod table;
mod turns;
mod zoo;

use jobs::Bench;
use kinds::Kind;
use records::Records;
use std::path::PathBuf;

struct Arguments {
    /// A folder on a disk. The default is `bench` in the target folder.
    disk: PathBuf,
    /// A folder in memory.
    memory: PathBuf,
    rounds: usize,
    mebibytes: u64,
    /// The kinds whose conversions are measured. The default is all of them.
    kinds: Vec<Kind>,
    records: bool,
    /// Whether many small models are measured.
    zoo: bool,
    /// Whether the cost of receipts is measured.
    receipts: bool,
    /// Whether dequantization is measured.
    dequantize: bool,
    /// Whether statistics of values are measured.
    statistics: bool,
}

fn main() {
    if let Some((zoo::ONE_PROCESS, folders)) =
        called().split_first().map(|(name, rest)| (name.as_str(), rest))
    {
        return zoo::in_one_process(folders);
    }
    // Parsing the arguments may build the workspace, which replaces the file of this program.
    let program = std::env::current_exe().unwrap();
    let arguments = arguments();
    println!("{}\n", machine::machine());
    if arguments.records {
        let records = Records::new(&arguments.memory, arguments.mebibytes / 2);
        records.beside_python(arguments.rounds);
        records.peak_memory();
    }
    if arguments.zoo {
        zoo::beside_cp(&arguments.disk, arguments.rounds, &program);
    }
    let bytes = arguments.mebibytes << 20;
    if arguments.receipts {
        Bench::new("memory", &arguments.memory, bytes, &[Kind::Torch]).with_receipts(arguments.rounds);
    }
    if arguments.dequantize {
        dequantize::beside_libraries(&arguments.memory, bytes, arguments.rounds);
    }
    if arguments.statistics {
        statistics::beside_libraries(&arguments.memory, bytes, arguments.rounds);
    }
    if arguments.kinds.is_empty() {
        return;
    }
    let disk = Bench::new("disk", &arguments.disk, bytes, &arguments.kinds);
    disk.beside_cp(arguments.rounds, &[]);
    disk.beside_cp(arguments.rounds, &["--sync"]);
    disk.beside_python();
    disk.peak_memory();
    Bench::new("memory", &arguments.memory, bytes, &arguments.kinds).beside_cp(arguments.rounds, &[]);
    // This measurement is last, because creating 100,000 tensors takes memory. The kernel
    // attributes the memory of this process to each child that it then starts.
    disk.small_and_many();
}

/// Returns the arguments of this program.
fn called() -> Vec<String> {
    std::env::args().skip(1).collect()
}

fn arguments() -> Arguments {
    let target = tensorferry_tests::workspace::workspace().target.clone();
    let mut arguments = Arguments {
        disk: target.join("bench"),
        memory: PathBuf::from("/dev/shm/ferry-bench"),
        rounds: 15,
        mebibytes: 1024,
        kinds: Vec::new(),
        records: false,
        zoo: false,
        receipts: false,
        dequantize: false,
        statistics: false,
    };
    let mut given = called().into_iter();
    while let Some(flag) = given.next() {
        let value = given.next().unwrap_or_else(|| panic!("{flag} takes a value"));
        match flag.as_str() {
            "--dir" => arguments.disk = PathBuf::from(value).join("ferry-bench"),
            "--memory-dir" => arguments.memory = PathBuf::from(value).join("ferry-bench"),
            "--rounds" => arguments.rounds = value.parse().expect("--rounds takes a number"),
            "--mebibytes" => arguments.mebibytes = value.parse().expect("--mebibytes takes a number"),
            "--only" if value == "records" => arguments.records = true,
            "--only" if value == "zoo" => arguments.zoo = true,
            "--only" if value == "receipts" => arguments.receipts = true,
            "--only" if value == "dequantize" => arguments.dequantize = true,
            "--only" if value == "statistics" => arguments.statistics = true,
            "--only" => arguments.kinds.push(kind(&value)),
            _ => panic!("unknown flag {flag}: use --dir, --memory-dir, --rounds, --mebibytes or --only"),
        }
    }
    let Arguments { records, zoo, receipts, dequantize, statistics, .. } = arguments;
    let asks = [records, zoo, receipts, dequantize, statistics];
    if arguments.kinds.is_empty() && !asks.contains(&true) {
        (arguments.records, arguments.zoo, arguments.receipts) = (true, true, true);
        (arguments.dequantize, arguments.statistics) = (true, true);
        arguments.kinds = Kind::ALL.to_vec();
    }
    arguments
}

/// Returns a kind by its name in the tables.
fn kind(word: &str) -> Kind {
    let words = Kind::ALL.map(Kind::word).join(", ");
    let found = Kind::ALL.into_iter().find(|kind| kind.word() == word);
    found.unwrap_or_else(|| {
        panic!("--only takes one of records, zoo, receipts, dequantize, statistics, {words}")
    })
}
