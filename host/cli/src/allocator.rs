//! How the C library allocates, for ferry and for its plugins, which share it.
//!
//! Batches of records are some mebibytes long, made on one thread and dropped on another, thousands of times.
//! Unless it is told otherwise, the C library gives such memory back to the system each time, which clears
//! it again page by page.

#![expect(unsafe_code, reason = "the C library's settings are a foreign function")]

/// From this length on, memory is taken from the system and given back by itself: the most that there may be.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MAPPED_FROM: i32 = 32 << 20;

/// Has freed memory kept for the next one who asks: at an end of the heap as much as there may be of buffers.
/// Called once, before there are threads.
#[cfg_attr(
    not(all(target_os = "linux", target_env = "gnu")),
    expect(unused_variables, reason = "nothing to tell")
)]
pub(crate) fn keep_freed_memory(buffers: u64) {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let kept = i32::try_from(buffers).unwrap_or(i32::MAX);
        // SAFETY: `mallopt` takes two numbers, and no other thread allocates yet. A setting that it does not
        // know is ignored.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_FROM);
            libc::mallopt(libc::M_TRIM_THRESHOLD, kept);
        }
    }
}
