//! Tables and requests are structures that grow across revisions.

use crate::failure::Failure;
use std::mem::MaybeUninit;

/// A structure that begins with its size, and to which later revisions add fields at the end.
///
/// # Safety
/// The type must be `repr(C)`, and its first field must be `size: usize`. All zeros must be a valid
/// value of the other fields.
pub unsafe trait Grows: Copy {
    /// Minimum size that a side may declare.
    const LEAST: usize;
}

/// The reason why a structure from the other side cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    Nowhere,
    /// The declared size is smaller than the size in revision 1.0.
    TooShort(usize),
}

/// Copies the fields that the other side's structure contains, and sets all other fields to zero.
///
/// # Safety
/// `structure` must be null, be misaligned, or point to a structure of this kind that is as long as
/// its `size` declares.
pub(crate) unsafe fn adopt<S: Grows>(structure: *const S) -> Result<S, Unfit> {
    if structure.is_null() || !structure.is_aligned() {
        return Err(Unfit::Nowhere);
    }
    // SAFETY: the pointer is aligned and not null, and every structure that implements `Grows`
    // begins with its size.
    let size = unsafe { structure.cast::<usize>().read() };
    if size < S::LEAST {
        return Err(Unfit::TooShort(size));
    }
    // Exclude a partial word at the end, so that no half of a pointer is copied.
    let size = size - size % align_of::<S>();
    let mut own = MaybeUninit::<S>::zeroed();
    // SAFETY: both structures are at least as long as the copied part, and zeros are a valid value
    // for the remaining fields.
    unsafe {
        std::ptr::copy_nonoverlapping(
            structure.cast::<u8>(),
            own.as_mut_ptr().cast(),
            size.min(size_of::<S>()),
        );
        Ok(own.assume_init())
    }
}

/// Calls [`adopt`]. If the structure cannot be used, returns a failure that names the structure.
///
/// # Safety
/// The safety conditions of [`adopt`] apply.
pub(crate) unsafe fn adopt_as<S: Grows>(what: &str, structure: *const S) -> Result<S, Failure> {
    // SAFETY: the caller upholds this function's safety contract.
    unsafe { adopt(structure) }.map_err(|unfit| match unfit {
        Unfit::Nowhere => Failure::contract(&format!("{what} is null or misaligned")),
        Unfit::TooShort(size) => {
            let mut failure =
                Failure::contract(&format!("{what} is too short: its `size` must be its size in bytes"));
            failure.details = vec![
                ("expected".to_owned(), format!("at least {} bytes", S::LEAST)),
                ("found".to_owned(), size.to_string()),
            ];
            failure
        }
    })
}

/// Returns the words that `adopt` copies from a structure that consists of `words`. The first word
/// is the size of the structure.
#[cfg(test)]
pub(crate) fn adopted<S: Grows>(words: &[u64]) -> Result<Vec<u64>, Failure> {
    // SAFETY: the tests pass at least as many words as the first word declares. Any word is a valid
    // value of numbers and of pointers that are never called.
    let own = unsafe { adopt_as::<S>("it", words.as_ptr().cast()) }?;
    // SAFETY: the structure consists of whole words, and each of its bytes was copied or is zero.
    Ok(unsafe { std::slice::from_raw_parts((&raw const own).cast(), size_of::<S>() / size_of::<u64>()) }
        .to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of this revision, with a last slot that an older revision did not have.
    #[repr(C)]
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct Slots {
        size: usize,
        first: usize,
        later: usize,
    }

    // SAFETY: the structure is `repr(C)` and begins with its size. The other fields are numbers, so
    // all zeros are a valid value.
    unsafe impl Grows for Slots {
        const LEAST: usize = std::mem::offset_of!(Slots, later);
    }

    #[test]
    fn a_slot_is_there_as_a_whole_or_not_at_all() {
        for size in 0..2 * size_of::<Slots>() {
            let theirs = Slots { size, first: usize::MAX, later: usize::MAX };
            // SAFETY: `adopt` reads no byte past the structure, regardless of the declared size.
            let adopted = unsafe { adopt(&raw const theirs) };
            let later = if size < size_of::<Slots>() { 0 } else { usize::MAX };
            let expected = (size >= Slots::LEAST).then_some((usize::MAX, later));
            assert_eq!(adopted.ok().map(|slots| (slots.first, slots.later)), expected, "{size}");
        }
    }
}
