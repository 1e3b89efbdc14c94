//! Strings and slices as they cross the boundary: a pointer and a length, which are valid until the
//! call returns.

use crate::crossing::{Argument, Plain};
use crate::failure::Failure;
use abi_stable::StableAbi;
use std::marker::PhantomData;

/// Declares a slice of plain elements.
macro_rules! slice {
    ($(#[$doc:meta])* $Raw:ident of $element:ty as $c:literal) => {
        $(#[$doc])*
        #[repr(C)]
        #[derive(StableAbi, Debug, Clone, Copy)]
        pub struct $Raw {
            ptr: *const $element,
            len: usize,
        }

        impl Plain for $Raw {
            type Seen<'a> = &'a [$element];
            const NAME: &'static str = $c;

            fn of(seen: &[$element]) -> Self {
                Self { ptr: seen.as_ptr(), len: seen.len() }
            }

            unsafe fn seen<'a>(self) -> Result<Self::Seen<'a>, Failure> {
                // SAFETY: the caller upholds this function's safety contract.
                unsafe { slice(self.ptr, self.len) }
            }
        }
    };
}

slice!(/// A slice of bytes.
    Bytes of u8 as "FerryBytes");
slice!(/// A slice of 64-bit numbers, such as a shape or encoded blocks.
    Numbers of u64 as "FerryNumbers");
slice!(/// A slice of ids of tensors, nodes or columns.
    Ids of u32 as "FerryIds");

/// # Safety
/// Unless `ptr` is null or misaligned, it must be valid for `len` elements during `'a`.
unsafe fn slice<'a, T>(ptr: *const T, len: usize) -> Result<&'a [T], Failure> {
    if len == 0 {
        return Ok(&[]);
    }
    check(ptr.is_null() || !ptr.is_aligned(), len, size_of::<T>())?;
    // SAFETY: the pointer is not null and is aligned, and the slice fits in memory. The caller
    // guarantees the rest.
    Ok(unsafe { std::slice::from_raw_parts(ptr, len) })
}

fn check(is_wrong: bool, len: usize, size: usize) -> Result<(), Failure> {
    let fits = len.checked_mul(size).is_some_and(|bytes| isize::try_from(bytes).is_ok());
    if is_wrong || !fits {
        return Err(Failure::contract("the pointer of a slice is invalid"));
    }
    Ok(())
}

/// A buffer that the called function fills.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct BytesMut {
    ptr: *mut u8,
    len: usize,
}

impl Argument for BytesMut {
    type Safe<'a> = &'a mut [u8];
    type Stored = Self;
    const C: &'static str = "FerryBytesMut";

    fn store(safe: &mut [u8]) -> Self {
        Self { ptr: safe.as_mut_ptr(), len: safe.len() }
    }

    fn raw(stored: &mut Self) -> Self {
        *stored
    }

    unsafe fn raise<'a>(self) -> Result<Self::Safe<'a>, Failure> {
        if self.len == 0 {
            return Ok(&mut []);
        }
        check(self.ptr.is_null(), self.len, 1)?;
        // SAFETY: the pointer is not null, and the slice fits in memory. The caller guarantees the
        // rest.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.ptr, self.len) })
    }
}

/// UTF-8 text without a terminator.
#[repr(C)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct Text {
    bytes: Bytes,
}

impl Text {
    /// Returns the string, with invalid UTF-8 replaced. Error messages are read with this function,
    /// so that a message that contains invalid UTF-8 is not lost.
    ///
    /// # Safety
    /// The safety conditions of [`Argument::raise`] apply.
    pub(crate) unsafe fn lossy(self) -> Result<String, Failure> {
        // SAFETY: the caller upholds this function's safety contract.
        Ok(String::from_utf8_lossy(unsafe { self.bytes.seen() }?).into_owned())
    }
}

impl Plain for Text {
    type Seen<'a> = &'a str;
    const NAME: &'static str = "FerryText";

    fn of(seen: &str) -> Self {
        Self { bytes: Bytes::of(seen.as_bytes()) }
    }

    unsafe fn seen<'a>(self) -> Result<Self::Seen<'a>, Failure> {
        // SAFETY: the caller upholds this function's safety contract.
        let bytes = unsafe { self.bytes.seen() }?;
        std::str::from_utf8(bytes).map_err(|_| Failure::contract("a text is not valid UTF-8"))
    }
}

/// A boolean, represented as 1 or 0.
#[repr(transparent)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct Flag(u8);

impl Plain for Flag {
    type Seen<'a> = bool;
    const NAME: &'static str = "uint8_t";

    fn of(seen: bool) -> Self {
        Self(seen.into())
    }

    unsafe fn seen<'a>(self) -> Result<Self::Seen<'a>, Failure> {
        match self.0 {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Failure::contract("a flag is neither 0 nor 1")),
        }
    }
}

/// Declares a slice of strings. All strings are validated together.
macro_rules! texts {
    ($(#[$doc:meta])* $Raw:ident of $(#[$element_doc:meta])* $Element:ident { $($(#[$field_doc:meta])* $field:ident),+ } as $c:literal) => {
        $(#[$element_doc])*
        #[repr(C)]
        #[derive(StableAbi, Debug, Clone, Copy)]
        pub struct $Element<'a> {
            $($field: Text,)+
            life: PhantomData<&'a ()>,
        }

        impl<'a> $Element<'a> {
            #[allow(missing_docs, reason = "its facts in order")]
            #[must_use]
            pub fn new($($field: &'a str),+) -> Self {
                Self { $($field: Text::of($field),)+ life: PhantomData }
            }

            $(
                $(#[$field_doc])*
                #[must_use]
                pub fn $field(&self) -> &'a str {
                    // SAFETY: this value was created from a string with a sufficient lifetime, or
                    // was validated on arrival.
                    unsafe { self.$field.seen() }.unwrap_or_default()
                }
            )+
        }

        $(#[$doc])*
        #[repr(C)]
        #[derive(StableAbi, Debug, Clone, Copy)]
        pub struct $Raw {
            ptr: *const $Element<'static>,
            len: usize,
        }

        impl Argument for $Raw {
            type Safe<'a> = &'a [$Element<'a>];
            type Stored = Self;
            const C: &'static str = $c;

            fn store(safe: &[$Element<'_>]) -> Self {
                Self { ptr: safe.as_ptr().cast(), len: safe.len() }
            }

            fn raw(stored: &mut Self) -> Self {
                *stored
            }

            unsafe fn raise<'a>(self) -> Result<Self::Safe<'a>, Failure> {
                // SAFETY: the caller upholds this function's safety contract.
                let elements: &'a [$Element<'a>] = unsafe { slice(self.ptr.cast(), self.len) }?;
                for element in elements {
                    // SAFETY: the caller upholds this function's safety contract.
                    $(unsafe { element.$field.seen() }?;)+
                }
                Ok(elements)
            }
        }
    };
}

texts! {
    Words of
    Word {
        text
    } as "FerryTexts"
}
texts! {
    Pairs of
    Pair {
        key,
        value
    } as "FerryPairs"
}
