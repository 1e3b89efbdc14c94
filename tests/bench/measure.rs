//! A measurement is how long a process ran, and how much memory it held at most.

use std::mem::MaybeUninit;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One run of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Measurement {
    pub(crate) wall: Duration,
    pub(crate) peak_bytes: u64,
}

/// Runs a command to its end; it must succeed.
pub(crate) fn measure(command: &mut Command) -> Measurement {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    #[expect(clippy::zombie_processes, reason = "wait4 waits for it")]
    let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (status, peak_bytes) = wait(child.id());
    let wall = start.elapsed();
    assert_eq!(status, 0, "{command:?} failed");
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

/// The processor, the cores, the kernel.
pub(crate) fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!(
        "{}, {cores} cores, Linux {}",
        model.trim_start_matches([':', '\t', ' ']),
        read("/proc/sys/kernel/osrelease").trim()
    )
}
