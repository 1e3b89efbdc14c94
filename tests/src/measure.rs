//! Measures the time and the peak memory of a process.

use std::io::Read;
use std::mem::MaybeUninit;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One run of a command.
#[derive(Debug, Clone, Copy)]
pub struct Measurement {
    pub wall: Duration,
    /// The largest resident set. A child process starts with the peak memory of this process, so
    /// this process should use little memory.
    pub peak_bytes: u64,
}

/// The kind of time to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// The time from the start of the process to its end.
    Process,
    /// The seconds that the process prints.
    Printed,
}

/// Runs a command until it exits, and measures it.
pub fn measure(command: &mut Command, clock: Clock) -> Measurement {
    command.stdin(Stdio::null());
    command.stdout(if clock == Clock::Printed { Stdio::piped() } else { Stdio::null() });
    let start = Instant::now();
    #[expect(clippy::zombie_processes, reason = "wait4 waits for it")]
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (status, peak_bytes) = wait(child.id());
    let mut wall = start.elapsed();
    assert_eq!(status, 0, "{command:?} failed");
    if let Some(stdout) = &mut child.stdout {
        // The process prints only a number, which fits into the buffer of the pipe.
        let mut printed = String::new();
        stdout.read_to_string(&mut printed).unwrap();
        wall = Duration::from_secs_f64(printed.trim().parse().expect("it prints seconds"));
    }
    Measurement { wall, peak_bytes }
}

/// Waits for a child, and returns its exit status and its peak memory. `std` does not provide the
/// peak memory.
fn wait(child: u32) -> (i32, u64) {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let process = child.try_into().expect("a process id");
    // SAFETY: both pointers are to live values of the types that wait4(2) fills.
    let waited = unsafe { libc::wait4(process, &raw mut status, 0, usage.as_mut_ptr()) };
    assert_eq!(waited, process, "{}", std::io::Error::last_os_error());
    // SAFETY: all zeros is a valid value of this struct of integers, and wait4 has succeeded.
    let usage = unsafe { usage.assume_init() };
    // Linux reports the peak in KiB.
    (status, u64::try_from(usage.ru_maxrss).expect("not negative") * 1024)
}
