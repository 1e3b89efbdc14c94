//! A measurement is how long a process ran, and how much memory it held at most.

use std::io::Read;
use std::mem::MaybeUninit;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One run of a command.
#[derive(Debug, Clone, Copy)]
pub struct Measurement {
    /// How long it took.
    pub wall: Duration,
    /// Its largest resident set. The kernel counts what this process held when it started the child as
    /// the child's: who measures should hold little.
    pub peak_bytes: u64,
}

/// Which time counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// From the start of the process to its end.
    Process,
    /// The seconds that it prints.
    Printed,
}

/// Runs a command to its end.
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
        // A number, which the pipe has held until now.
        let mut printed = String::new();
        stdout.read_to_string(&mut printed).unwrap();
        wall = Duration::from_secs_f64(printed.trim().parse().expect("it prints seconds"));
    }
    Measurement { wall, peak_bytes }
}

/// Waits for one child; `std` waits too, and does not say what the child used.
fn wait(child: u32) -> (i32, u64) {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let process = child.try_into().expect("a process id");
    // SAFETY: both pointers are to live values of the types that wait4(2) fills.
    let waited = unsafe { libc::wait4(process, &raw mut status, 0, usage.as_mut_ptr()) };
    assert_eq!(waited, process, "{}", std::io::Error::last_os_error());
    // SAFETY: zeroed is a valid value of this struct of integers, and wait4 has succeeded.
    let usage = unsafe { usage.assume_init() };
    // Linux counts kibibytes.
    (status, u64::try_from(usage.ru_maxrss).expect("not negative") * 1024)
}
