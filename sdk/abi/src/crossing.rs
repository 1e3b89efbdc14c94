//! How each type of the boundary is seen by safe code, on the side that calls and on the side that is called.

use crate::failure::Failure;

/// A type that is handed to a call.
pub trait Argument: Copy {
    /// What safe code hands over and receives.
    type Safe<'a>;
    /// What must stay in place while the call runs.
    type Stored;
    /// Its name in C.
    const C: &'static str;

    /// For the side that calls.
    fn store(safe: Self::Safe<'_>) -> Self::Stored;

    /// What crosses.
    fn raw(stored: &mut Self::Stored) -> Self;

    /// For the side that is called.
    ///
    /// # Safety
    /// What the other side handed over keeps the crate's rules, and is valid for `'a`.
    unsafe fn raise<'a>(self) -> Result<Self::Safe<'a>, Failure>;
}

/// A type that a call gives back through a pointer. All zeros are a value of it.
pub trait Answer: Sized {
    /// What safe code gives and receives; borrowed ones live as long as the object that was called.
    type Safe<'s>;
    /// Its name in C.
    const C: &'static str;

    /// For the side that is called.
    fn lower(safe: Self::Safe<'_>) -> Self;

    /// For the side that calls.
    ///
    /// # Safety
    /// What the other side wrote keeps the crate's rules, and is valid for `'s`.
    unsafe fn raise<'s>(self) -> Result<Self::Safe<'s>, Failure>;
}

/// A type that is handed to calls and given back by them in the same form.
pub trait Plain: Copy {
    /// What safe code hands over and receives.
    type Seen<'a>;
    /// Its name in C.
    const NAME: &'static str;

    /// What crosses.
    fn of(seen: Self::Seen<'_>) -> Self;

    /// What safe code sees of it.
    ///
    /// # Safety
    /// As for [`Argument::raise`].
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
        // SAFETY: the caller's contract.
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
        // SAFETY: the caller's contract.
        unsafe { self.seen() }
    }
}

/// Declares numbers, which cross as they are.
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

/// What a call gives back: nothing, one answer, or several.
pub trait Answers: Sized {
    /// What safe code gives and receives.
    type Safe<'s>;
    /// Where they are written.
    type Places: Copy;

    /// For the side that is called.
    ///
    /// # Safety
    /// The places may be written to.
    unsafe fn write(places: Self::Places, safe: Self::Safe<'_>);

    /// For the side that calls.
    ///
    /// # Safety
    /// As for [`Answer::raise`].
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
        // SAFETY: the caller's contract.
        unsafe { places.0.write(A::lower(safe)) }
    }

    unsafe fn raise<'s>(self) -> Result<Self::Safe<'s>, Failure> {
        // SAFETY: the caller's contract.
        unsafe { self.0.raise() }
    }
}

/// Declares what several answers are.
macro_rules! several {
    ($($Type:ident $index:tt),+) => {
        impl<$($Type: Answer),+> Answers for ($($Type,)+) {
            type Safe<'s> = ($($Type::Safe<'s>,)+);
            type Places = ($(*mut $Type,)+);

            unsafe fn write(places: Self::Places, safe: Self::Safe<'_>) {
                // SAFETY: the caller's contract.
                $(unsafe { places.$index.write($Type::lower(safe.$index)) };)+
            }

            unsafe fn raise<'s>(self) -> Result<Self::Safe<'s>, Failure> {
                // SAFETY: the caller's contract.
                Ok(($(unsafe { self.$index.raise() }?,)+))
            }
        }
    };
}

several!(A 0, B 1);
several!(A 0, B 1, C 2);
several!(A 0, B 1, C 2, D 3);
several!(A 0, B 1, C 2, D 3, E 4);
