//! Calls that differ between Linux and macOS. Both variants have the same functions.

pub(crate) use system::{keep_freed_memory, memory_of};

#[cfg(target_os = "linux")]
mod system {
    #![expect(unsafe_code, reason = "allocator settings need a foreign function")]

    /// The minimum size, in bytes, of an allocation that is mapped separately. This is the largest
    /// value that glibc accepts.
    #[cfg(target_env = "gnu")]
    const MAPPED_FROM: i32 = 32 << 20;

    /// Keeps up to `buffers` bytes of freed memory at the end of the heap for reuse. The program must
    /// call this function once, before it starts threads. ferry and its plugins share the allocator.
    ///
    /// Batches of records occupy several mebibytes. ferry allocates each batch on one thread and frees
    /// it on another, thousands of times. By default, glibc returns freed batches to the system each
    /// time. The system then clears every page before it hands out the memory again.
    #[cfg(target_env = "gnu")]
    pub(crate) fn keep_freed_memory(buffers: u64) {
        let kept = i32::try_from(buffers).unwrap_or(i32::MAX);
        // SAFETY: `mallopt` only receives two numbers, and no other thread allocates memory yet. It
        // ignores unknown settings.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM);
            libc::mallopt(libc::M_TRIM_THRESHOLD, kept);
        }
    }

    /// Does nothing: only glibc has these settings.
    #[cfg(not(target_env = "gnu"))]
    pub(crate) fn keep_freed_memory(_: u64) {}

    /// Returns the memory of a process in bytes, or 0 if the system does not report it.
    pub(crate) fn memory_of(process: u32) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let resident = text.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"));
        resident.and_then(|kibibytes| kibibytes.parse::<u64>().ok()).unwrap_or(0) << 10
    }
}

#[cfg(target_os = "macos")]
mod system {
    /// Does nothing: only glibc has these settings.
    pub(crate) fn keep_freed_memory(_: u64) {}

    /// Returns 0: the memory of another process is unknown.
    pub(crate) fn memory_of(_: u32) -> u64 {
        0
    }
}
