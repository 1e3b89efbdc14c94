//! The memory that records take does not depend on how many there are.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::{TempDir, tempdir};
use tensorferry_tests::Ferry;
use tensorferry_tests::fuzz_records::frame;
use tensorferry_tests::measure::{Clock, measure};
use tensorferry_tests::wire::Wire;

const MEBIBYTE: u64 = 1 << 20;
const BUDGET: &str = "32MiB";

/// An Example of about a kilobyte. Its whole numbers have one byte each, and eight once they are decoded.
fn example(number: u64) -> Vec<u8> {
    let number = number.to_le_bytes();
    let floats: Vec<u8> = (0..64_u8).flat_map(|at| [at, number[0], number[1], 0x3f]).collect();
    let ints: Vec<u8> = (0..300_u16).map(|at| (at.to_le_bytes()[0] ^ number[0]) & 0x7f).collect();
    let image: Vec<u8> = (0..450_u16).flat_map(|at| [at.to_le_bytes()[0] ^ number[1]]).collect();
    let entry = |key: &str, kind: u32, list: &[u8]| {
        let list = Wire::new().bytes(1, list);
        Wire::new().bytes(1, key.as_bytes()).message(2, &Wire::new().message(kind, &list))
    };
    let features = Wire::new()
        .message(1, &entry("image", 1, &image))
        .message(1, &entry("floats", 2, &floats))
        .message(1, &entry("ints", 3, &ints));
    Wire::new().message(1, &features).0
}

/// A file of examples of about that size, written piece by piece: what this process holds counts as its
/// children's.
fn file_of(folder: &TempDir, name: &str, mebibytes: u64) -> PathBuf {
    let block: Vec<u8> = (0..1000).flat_map(|number| frame(&example(number))).collect();
    let path = folder.path().join(name);
    let mut file = File::create(&path).unwrap();
    for _ in 0..(mebibytes * MEBIBYTE).div_ceil(block.len() as u64) {
        file.write_all(&block).unwrap();
    }
    path
}

/// The most memory that a command takes, in bytes.
fn peak(ferry: &Ferry, input: &Path, command: &str, output: Option<&str>) -> u64 {
    let folder = tempdir().unwrap();
    let mut command = ferry.command([command, "--memory", BUDGET, "--threads", "2"]);
    command.arg(input).args(output.map(|name| folder.path().join(name)));
    measure(&mut command, Clock::Process).peak_bytes
}

#[test]
fn memory_does_not_grow_with_the_input() {
    let ferry = Ferry::new();
    let folder = tempdir().unwrap();
    let small = file_of(&folder, "small.tfrecord", 48);
    let large = file_of(&folder, "large.tfrecord", 160);
    for (command, output) in [
        ("index", Some("out.idx")),
        ("inspect", None),
        ("convert", Some("out.parquet")),
        ("convert", Some("out.tfrecord")),
    ] {
        let [small, large] = [&small, &large].map(|input| peak(&ferry, input, command, output) / MEBIBYTE);
        let told = format!("{command} to {output:?}: {small} MiB for 48 MiB, {large} MiB for 160 MiB");
        println!("{told}");
        // Threads meet in other ways each time, and what an allocator keeps is not the same twice.
        assert!(large <= small + 32, "{told}");
    }
}
