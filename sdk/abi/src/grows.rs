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
    // A size that ends inside a pointer must not give half of one.
    let size = size - size % align_of::<S>();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of this revision, whose last slot came after the first.
    #[repr(C)]
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Slots {
        size: usize,
        first: usize,
        later: usize,
    }

    // SAFETY: numbers after its size.
    unsafe impl Grows for Slots {
        const LEAST: usize = std::mem::offset_of!(Slots, later);
    }

    #[test]
    fn a_slot_is_there_as_a_whole_or_not_at_all() {
        for size in 0..2 * size_of::<Slots>() {
            let theirs = Slots { size, first: usize::MAX, later: usize::MAX };
            // SAFETY: no byte past it is read, whatever it says.
            let adopted = unsafe { adopt(&raw const theirs) };
            let later = if size < size_of::<Slots>() { 0 } else { usize::MAX };
            let expected = (size >= Slots::LEAST).then_some((usize::MAX, later));
            assert_eq!(adopted.map(|slots| (slots.first, slots.later)), expected, "{size}");
        }
    }
}
