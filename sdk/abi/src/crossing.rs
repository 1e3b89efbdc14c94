//! Converts the types of the boundary to and from safe types, for the caller and for the called
//! function.

use crate::failure::Failure;

/// An argument type of a call.
pub trait Argument: Copy {
    /// Type of the argument in safe code.
    type Safe<'a>;
    /// Data that must not move during the call.
    type Stored;
    /// Name of the argument type in C.
    const C: &'static str;

    /// Prepares an argument on the calling side.
    fn store(safe: Self::Safe<'_>) -> Self::Stored;

    /// Returns the value to pass across the boundary.
    fn raw(stored: &mut Self::Stored) -> Self;

    /// Converts a received argument on the called side.
    ///
    /// # Safety
    /// The value from the other side must follow the crate's rules, and must be valid for `'a`.
    unsafe fn raise<'a>(self) -> Result<Self::Safe<'a>, Failure>;
}

/// A result type of a call. The call writes the result through a pointer. All zeros are a valid
/// value.
pub trait Answer: Sized {
    /// Type of the result in safe code. Borrowed values live as long as the called object.
    type Safe<'s>;
    /// Name of the result type in C.
    const C: &'static str;

    /// Converts a result on the called side before the call returns.
    fn lower(safe: Self::Safe<'_>) -> Self;

    /// Converts a received result on the calling side.
    ///
    /// # Safety
    /// The value from the other side must follow the crate's rules, and must be valid for `'s`.
    unsafe fn raise<'s>(self) -> Result<Self::Safe<'s>, Failure>;
}

/// A type with the same representation as an argument and as a result.
pub trait Plain: Copy {
    /// Type in safe code.
    type Seen<'a>;
    /// Name of the type in C.
    const NAME: &'static str;

    /// Returns the value to pass across the boundary.
    fn of(seen: Self::Seen<'_>) -> Self;

    /// Converts a received value to its type in safe code.
    ///
    /// # Safety
    /// The safety conditions of [`Argument::raise`] apply.
    unsafe fn seen<'a>(self) -> Result<Self::Seen<'a>, Failure>;
}

impl<P: Plain> Argument for P {
    type Safe<'a> = P::Seen<'a>;
    type Stored = Self;
    const C: &'static str = P::NAME;

    fn store(safe: P::Seen<'_>) -> Self {
        P::of(safe)
    }

    fn raw(stored: &mut Self) -> Self {
        *stored
    }

    unsafe fn raise<'a>(self) -> Result<P::Seen<'a>, Failure> {
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { self.seen() }
    }
}

impl<P: Plain> Answer for P {
    type Safe<'s> = P::Seen<'s>;
    const C: &'static str = P::NAME;

    fn lower(safe: P::Seen<'_>) -> Self {
        P::of(safe)
    }

    unsafe fn raise<'s>(self) -> Result<P::Seen<'s>, Failure> {
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { self.seen() }
    }
}

/// Declares number types, which cross the boundary unchanged.
macro_rules! numbers {
    ($($number:ident as $c:literal),+) => { $(
        impl Plain for $number {
            type Seen<'a> = Self;
            const NAME: &'static str = $c;

            fn of(seen: Self) -> Self {
                seen
            }

            unsafe fn seen<'a>(self) -> Result<Self::Seen<'a>, Failure> {
                Ok(self)
            }
        }
    )+ };
}

numbers!(u32 as "uint32_t", u64 as "uint64_t", i64 as "int64_t");

/// The results of a call: none, one, or several.
pub trait Answers: Sized {
    /// Type of the results in safe code.
    type Safe<'s>;
    /// Pointers to the places where the results are written.
    type Places: Copy;

    /// Writes the results on the called side.
    ///
    /// # Safety
    /// The pointers must be valid for writes.
    unsafe fn write(places: Self::Places, safe: Self::Safe<'_>);

    /// Converts the received results on the calling side.
    ///
    /// # Safety
    /// The safety conditions of [`Answer::raise`] apply.
    unsafe fn raise<'s>(self) -> Result<Self::Safe<'s>, Failure>;
}

impl Answers for () {
    type Safe<'s> = ();
    type Places = ();

    unsafe fn write((): (), (): ()) {}

    unsafe fn raise<'s>(self) -> Result<Self::Safe<'s>, Failure> {
        Ok(())
    }
}

impl<A: Answer> Answers for (A,) {
    type Safe<'s> = A::Safe<'s>;
    type Places = (*mut A,);

    unsafe fn write(places: Self::Places, safe: A::Safe<'_>) {
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { places.0.write(A::lower(safe)) }
    }

    unsafe fn raise<'s>(self) -> Result<Self::Safe<'s>, Failure> {
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { self.0.raise() }
    }
}

/// Implements [`Answers`] for tuples of results.
macro_rules! several {
    ($($Type:ident $index:tt),+) => {
        impl<$($Type: Answer),+> Answers for ($($Type,)+) {
            type Safe<'s> = ($($Type::Safe<'s>,)+);
            type Places = ($(*mut $Type,)+);

            unsafe fn write(places: Self::Places, safe: Self::Safe<'_>) {
                // SAFETY: the caller upholds this function's safety contract.
                $(unsafe { places.$index.write($Type::lower(safe.$index)) };)+
            }

            unsafe fn raise<'s>(self) -> Result<Self::Safe<'s>, Failure> {
                // SAFETY: the caller upholds this function's safety contract.
                Ok(($(unsafe { self.$index.raise() }?,)+))
            }
        }
    };
}

several!(A 0, B 1);
several!(A 0, B 1, C 2);
several!(A 0, B 1, C 2, D 3);
several!(A 0, B 1, C 2, D 3, E 4);
