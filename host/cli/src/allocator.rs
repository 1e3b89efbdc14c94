//! Settings of the C library's allocator, which ferry and its plugins share.
//!
//! Batches of records are several mebibytes long. They are allocated on one thread and freed on
//! another, thousands of times. By default, the C library returns such memory to the system each
//! time, and the system then clears it again page by page.

#![expect(unsafe_code, reason = "allocator settings need a foreign function")]

/// Allocations of at least this many bytes are mapped separately. This is the maximum that glibc
/// accepts.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_FROM: i32 = 32 << 20;

/// Keeps up to `buffers` bytes of freed memory at the end of the heap for reuse. Must be called
/// once, before threads start.
#[cfg_attr(
    not(all(target_os = "linux", target_env = "gnu")),
    expect(unused_variables, reason = "only glibc has these settings")
)]
pub(crate) fn keep_freed_memory(buffers: u64) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let kept = i32::try_from(buffers).unwrap_or(i32::MAX);
        // SAFETY: `mallopt` takes two numbers, and no other thread allocates yet. It ignores
        // unknown settings.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM);
            libc::mallopt(libc::M_TRIM_THRESHOLD, kept);
        }
    }
}
