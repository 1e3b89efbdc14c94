//! Structures that grow: tables and requests.

use std::mem::MaybeUninit;

/// A structure that begins with its size and grows at its end.
///
/// # Safety
/// `repr(C)`, its first field is `size: usize`, and all zeros are a value of the rest.
pub unsafe trait Grows: Copy {
    /// The least size that a side may give.
    const LEAST: usize;
}

/// Copies what the other side has of a structure; what it does not have is zero.
///
/// # Safety
/// `structure` is null, misaligned, or points to a structure of this kind, as long as its size says.
pub(crate) unsafe fn adopt<S: Grows>(structure: *const S) -> Option<S> {
    if structure.is_null() || !structure.is_aligned() {
        return None;
    }
    // SAFETY: every such structure begins with its size.
    let size = unsafe { structure.cast::<usize>().read() };
    if size < S::LEAST {
        return None;
    }
    let mut own = MaybeUninit::<S>::zeroed();
    // SAFETY: both are at least as long as what is copied, and zeros are a value of the rest.
    unsafe {
        std::ptr::copy_nonoverlapping(
            structure.cast::<u8>(),
            own.as_mut_ptr().cast(),
            size.min(size_of::<S>()),
        );
        Some(own.assume_init())
    }
}
