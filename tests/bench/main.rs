//! The benchmark: conversions beside `cp` of the same file, in one run, and beside the way that
//! Python scripts go. See README.md here.
//!
//! `cargo run --release --package tensorferry-tests --bin bench -- --rounds 15 --dir FOLDER`
#![expect(clippy::unwrap_used, reason = "a benchmark ends where something fails")]

mod jobs;
mod measure;
mod table;

use jobs::Bench;
use std::path::PathBuf;

/// What the command line says.
struct Arguments {
    /// A folder on a disk; the target folder's `bench` by default.
    disk: PathBuf,
    /// A folder in memory.
    memory: PathBuf,
    rounds: usize,
    mebibytes: u64,
}

fn main() {
    let arguments = arguments();
    println!("{}\n", measure::machine());
    let bytes = arguments.mebibytes << 20;
    let disk = Bench::new("disk", &arguments.disk, bytes);
    disk.beside_cp(arguments.rounds, &[]);
    disk.beside_cp(arguments.rounds, &["--sync"]);
    disk.beside_python();
    disk.peak_memory();
    Bench::new("memory", &arguments.memory, bytes).beside_cp(arguments.rounds, &[]);
    // Last: the kernel counts the memory that this process held when it started a child as the
    // child's, and making 100,000 tensors takes some.
    disk.small_and_many();
}

fn arguments() -> Arguments {
    let target = tensorferry_tests::workspace::workspace().target.clone();
    let mut arguments = Arguments {
        disk: target.join("bench"),
        memory: PathBuf::from("/dev/shm/ferry-bench"),
        rounds: 15,
        mebibytes: 1024,
    };
    let mut given = std::env::args().skip(1);
    while let Some(flag) = given.next() {
        let value = given.next().unwrap_or_else(|| panic!("{flag} takes a value"));
        match flag.as_str() {
            "--dir" => arguments.disk = PathBuf::from(value).join("ferry-bench"),
            "--memory-dir" => arguments.memory = PathBuf::from(value).join("ferry-bench"),
            "--rounds" => arguments.rounds = value.parse().expect("--rounds takes a number"),
            "--mebibytes" => arguments.mebibytes = value.parse().expect("--mebibytes takes a number"),
            _ => panic!("unknown flag {flag}: there are --dir, --memory-dir, --rounds, --mebibytes"),
        }
    }
    arguments
}
