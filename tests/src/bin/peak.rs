//! Runs a command, and prints its peak memory in bytes. The measurement needs a separate program,
//! because a child process starts with the peak memory of its parent, and a test binary may use a
//! lot of memory.

use std::process::Command;
use tensorferry_tests::measure::{Clock, measure};

fn main() {
    let mut words = std::env::args_os().skip(1);
    let mut command = Command::new(words.next().expect("usage: peak COMMAND..."));
    println!("{}", measure(command.args(words), Clock::Process).peak_bytes);
}
