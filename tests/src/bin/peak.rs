//! Runs a command, and prints how many bytes of memory it held at most. A process of its own: what a
//! process holds when it starts a child counts as the child's, and a test binary may hold much.

use std::process::Command;
use tensorferry_tests::measure::{Clock, measure};

fn main() {
    let mut words = std::env::args_os().skip(1);
    let mut command = Command::new(words.next().expect("usage: peak COMMAND..."));
    println!("{}", measure(command.args(words), Clock::Process).peak_bytes);
}
