//! Configures the C library's memory allocator, which ferry and its plugins share.
//!
//! Batches of records occupy several mebibytes. ferry allocates each batch on one thread and frees
//! it on another, thousands of times. By default, the C library returns freed batches to the system
//! each time. The system then clears every page before it hands out the memory again.

#![expect(unsafe_code, reason = "allocator settings need a foreign function")]

/// The minimum size, in bytes, of an allocation that is mapped separately. This is the largest
/// value that glibc accepts.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_FROM: i32 = 32 << 20;

/// Keeps up to `buffers` bytes of freed memory at the end of the heap for reuse. The program must
/// call this function once, before it starts threads.
#[cfg_attr(
    not(all(target_os = "linux", target_env = "gnu")),
    expect(unused_variables, reason = "only glibc has these settings")
)]
pub(crate) fn keep_freed_memory(buffers: u64) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let kept = i32::try_from(buffers).unwrap_or(i32::MAX);
        // SAFETY: `mallopt` only receives two numbers, and no other thread allocates memory yet.
        // `mallopt` ignores unknown settings.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM);
            libc::mallopt(libc::M_TRIM_THRESHOLD, kept);
        }
    }
}
