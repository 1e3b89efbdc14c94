//! The description of the machine that was measured.

/// Returns the processor, the number of cores and the kernel.
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
