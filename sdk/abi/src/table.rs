//! Macros that expand the declarations of the boundary. Each declaration expands to a table, the
//! table's twin for `abi_stable`, and an object type. It also expands to a trait for
//! implementations, the functions that call the trait, methods for callers, and the descriptions
//! for the C header.

use crate::data::Text;
use crate::error_sink::ErrorSink;
use crate::failure::DONE;
use std::ffi::c_void;

/// Declares a kind of object, in the syntax that [`crate::boundary`] uses. Slots after `then` were
/// added after the golden libraries were built, so the tables of those libraries do not contain
/// them.
macro_rules! object {
    (
        $(#[doc = $doc:literal])*
        $kind:ident $Object:ident: $Table:ident, $Ref:ident, $Calls:ident, $owner:ident
        { $($first:tt)* } $(then { $($later:tt)* })?
    ) => {
        object! {
            @all [$($first)*] $(#[doc = $doc])* $kind $Object: $Table, $Ref, $Calls, $owner
            { $($first)* $($($later)*)? }
        }
    };

    (
        @all [$( $(#[doc = $first_doc:literal])* $first:ident ($($first_in:tt)*) $(-> ($($first_out:tt)*))?; )*]
        $(#[doc = $doc:literal])*
        $kind:ident $Object:ident: $Table:ident, $Ref:ident, $Calls:ident, $owner:ident
        { $(
            $(#[doc = $slot_doc:literal])*
            $slot:ident ($($p:ident: $t:ty),*) $(-> ($($o:ident: $ot:ty),+))?;
        )* }
    ) => {
        $(#[doc = $doc])*
        #[repr(C)]
        #[derive(StableAbi, Debug, Clone, Copy)]
        pub struct $Object {
            #[sabi(unsafe_change_type = $Ref)]
            table: *const $Table,
            this: *mut c_void,
        }

        #[doc = concat!("The functions of [`", stringify!($Object), "`].")]
        #[repr(C)]
        #[derive(StableAbi, Clone, Copy)]
        #[sabi(kind(Prefix(prefix_ref = $Ref)))]
        pub struct $Table {
            /// Length of this table in bytes.
            pub size: usize,
            /// Destroys the object. May be null if the object does not need cleanup.
            pub drop: Option<unsafe extern "C" fn(this: *mut c_void, err: ErrorSink) -> i32>,
            /// Returns the table of an extension of this object, or null. Reserved for later
            /// revisions.
            #[sabi(last_prefix_field)]
            pub extension: Option<
                unsafe extern "C" fn(
                    this: *mut c_void,
                    id: Text,
                    table: *mut *const c_void,
                    err: ErrorSink,
                ) -> i32,
            >,
            $(
                $(#[doc = $slot_doc])*
                pub $slot: Option<
                    unsafe extern "C" fn(
                        this: *mut c_void
                        $(, $p: $t)*
                        $($(, $o: *mut $ot)+)?,
                        err: ErrorSink
                    ) -> i32,
                >,
            )*
        }

        // SAFETY: the structure is `repr(C)` and begins with its size. The other fields are
        // nullable pointers, so all zeros are a valid value.
        unsafe impl Grows for $Table {
            const LEAST: usize = size_of::<usize>() * (3 + <[&str]>::len(&[$(stringify!($first)),*]));
        }

        // SAFETY: the object type is declared above as a table pointer and a data pointer.
        unsafe impl Table for $Table {
            type Object = $Object;
            const NAME: &'static str = stringify!($Object);
            const OWNER: Sender = Sender::$owner;

            fn object(table: *const Self, this: *mut c_void) -> $Object {
                $Object { table, this }
            }

            fn halves(object: $Object) -> (*const Self, *mut c_void) {
                (object.table, object.this)
            }

            fn drop_slot(&self) -> Option<unsafe extern "C" fn(this: *mut c_void, err: ErrorSink) -> i32> {
                self.drop
            }
        }

        impl ObjectOf for $Object {
            type Table = $Table;
            const C: &'static str = concat!("Ferry", stringify!($Object));
        }

        impl Argument for $Object {
            type Safe<'a> = Borrowed<'a, $Table>;
            type Stored = Self;
            const C: &'static str = <Self as ObjectOf>::C;

            fn store(safe: Borrowed<'_, $Table>) -> Self {
                safe.object()
            }

            fn raw(stored: &mut Self) -> Self {
                *stored
            }

            unsafe fn raise<'a>(self) -> Result<Self::Safe<'a>, Failure> {
                // SAFETY: the caller upholds this function's safety contract.
                unsafe { Borrowed::raise(self) }
            }
        }

        object!(@trait $kind $Object $Table $Calls {
            $( $(#[doc = $slot_doc])* $slot ($($p: $t),*) ($($($ot,)+)?); )*
        });

        const _: () = {
            /// The table functions for a value on this side.
            struct Lent<T>(std::marker::PhantomData<T>);

            impl<T: $Calls> Lent<T> {
                $(
                    unsafe extern "C" fn $slot(
                        this: *mut c_void
                        $(, $p: $t)*
                        $($(, $o: *mut $ot)+)?,
                        err: ErrorSink
                    ) -> i32 {
                        let run = || {
                            // SAFETY: the caller lent the value, which lives until the call
                            // returns.
                            let value = unsafe { object!(@value $kind this T) };
                            // SAFETY: the other side follows the crate's rules.
                            $(let $p = unsafe { <$t as Argument>::raise($p) }?;)*
                            let answers = value.$slot($($p),*)?;
                            // SAFETY: the other side follows the crate's rules.
                            unsafe { <($($($ot,)+)?) as Answers>::write(($($($o,)+)?), answers) };
                            Ok(())
                        };
                        // SAFETY: the other side follows the crate's rules.
                        unsafe { guard(err, concat!(stringify!($Object), ".", stringify!($slot)), run) }
                    }
                )*

                unsafe extern "C" fn free(this: *mut c_void, err: ErrorSink) -> i32 {
                    let run = || {
                        // SAFETY: `Owned::give` created the value in a `Box`, and the owner drops
                        // the value only once.
                        drop(unsafe { Box::from_raw(this.cast::<T>()) });
                        Ok(())
                    };
                    // SAFETY: the other side follows the crate's rules.
                    unsafe { guard(err, "drop", run) }
                }
            }

            // SAFETY: the functions above accept a pointer to a `T`, and `free` accepts a pointer
            // from a `Box`.
            unsafe impl<T: $Calls> Lend<$Table> for T {
                const BORROWED: &'static $Table = &$Table {
                    size: size_of::<$Table>(),
                    drop: None,
                    extension: Some(no_extension),
                    $($slot: Some(Lent::<T>::$slot),)*
                };
                const OWNED: &'static $Table =
                    &$Table { drop: Some(Lent::<T>::free), ..*<T as Lend<$Table>>::BORROWED };
            }
        };

        impl Described for $Table {
            const FACTS: ObjectFacts = ObjectFacts {
                name: <$Object as ObjectOf>::C,
                docs: &[$($doc),*],
                slots: &[$(SlotFacts {
                    name: stringify!($slot),
                    docs: &[$($slot_doc),*],
                    arguments: &[$((stringify!($p), <$t as Argument>::C)),*],
                    answers: &[$($((stringify!($o), <$ot as Answer>::C)),+)?],
                    offset: std::mem::offset_of!($Table, $slot),
                }),*],
                size: size_of::<$Table>(),
                #[cfg(test)]
                adopted: crate::grows::adopted::<$Table>,
            };
        }

        impl Handle<$Table> {
            $(
                $(#[doc = $slot_doc])*
                #[allow(clippy::missing_errors_doc, clippy::too_many_arguments, reason = "a declaration's facts")]
                pub fn $slot<'s>(
                    &'s self
                    $(, $p: <$t as Argument>::Safe<'_>)*
                ) -> Result<<($($($ot,)+)?) as Answers>::Safe<'s>, Failure> {
                    let Some(slot) = self.table.$slot else {
                        return Err(Failure::missing(concat!(stringify!($Object), ".", stringify!($slot))));
                    };
                    $(let mut $p = <$t as Argument>::store($p);)*
                    $($(let mut $o = std::mem::MaybeUninit::<$ot>::zeroed();)+)?
                    call(<$Table as Table>::OWNER, |err| {
                        // SAFETY: the object follows the crate's rules, and the arguments live on
                        // the stack of this function.
                        unsafe {
                            slot(
                                self.this
                                $(, <$t as Argument>::raw(&mut $p))*
                                $($(, $o.as_mut_ptr())+)?,
                                err
                            )
                        }
                    })?;
                    // SAFETY: zeros are a valid value of each result, and the other side follows
                    // the rules when it writes a result.
                    unsafe { Answers::raise(($($($o.assume_init(),)+)?)) }
                }
            )*
        }
    };

    (@value shared $this:ident $T:ident) => { &*$this.cast::<$T>() };
    (@value sink $this:ident $T:ident) => { &mut *$this.cast::<$T>() };

    (@trait shared $Object:ident $Table:ident $Calls:ident { $(
        $(#[doc = $doc:literal])* $slot:ident ($($p:ident: $t:ty),*) ($($ot:ty,)*);
    )* }) => {
        // SAFETY: the declaration marks the object as shared.
        unsafe impl Shared for $Table {}

        #[doc = concat!("The functions that a side implements to lend a [`", stringify!($Object), "`].")]
        pub trait $Calls: Send + Sync {
            $(
                $(#[doc = $doc])*
                #[allow(clippy::missing_errors_doc, clippy::too_many_arguments, reason = "a declaration's facts")]
                fn $slot<'s>(
                    &'s self
                    $(, $p: <$t as Argument>::Safe<'_>)*
                ) -> Result<<($($ot,)*) as Answers>::Safe<'s>, Failure>;
            )*
        }
    };

    (@trait sink $Object:ident $Table:ident $Calls:ident { $(
        $(#[doc = $doc:literal])* $slot:ident ($($p:ident: $t:ty),*) ($($ot:ty,)*);
    )* }) => {
        #[doc = concat!("The functions that a side implements to lend a [`", stringify!($Object), "`].")]
        pub trait $Calls {
            $(
                $(#[doc = $doc])*
                #[allow(clippy::missing_errors_doc, clippy::too_many_arguments, reason = "a declaration's facts")]
                fn $slot<'s>(
                    &'s mut self
                    $(, $p: <$t as Argument>::Safe<'_>)*
                ) -> Result<<($($ot,)*) as Answers>::Safe<'s>, Failure>;
            )*
        }
    };
}

/// Declares a request, which is a structure of fields that grows across revisions.
macro_rules! request {
    (
        $(#[doc = $doc:literal])*
        $Pointer:ident: $Raw:ident, $Ref:ident, $Safe:ident
        { $($first:tt)* } $(then { $($later:tt)* })?
    ) => {
        request! {
            @all [$($first)*] $(#[doc = $doc])* $Pointer: $Raw, $Ref, $Safe { $($first)* $($($later)*)? }
        }
    };

    (
        @all [$( $(#[doc = $first_doc:literal])* $first:ident: $first_type:ty, )*]
        $(#[doc = $doc:literal])*
        $Pointer:ident: $Raw:ident, $Ref:ident, $Safe:ident
        { $( $(#[doc = $field_doc:literal])* $field:ident: $t:ty, )* }
    ) => {
        $(#[doc = $doc])*
        #[repr(C)]
        #[derive(StableAbi, Clone, Copy)]
        #[sabi(kind(Prefix(prefix_ref = $Ref)))]
        pub struct $Raw {
            /// Length of this structure in bytes.
            #[sabi(last_prefix_field)]
            pub size: usize,
            $( $(#[doc = $field_doc])* pub $field: $t, )*
        }

        #[doc = concat!("A pointer to a [`", stringify!($Raw), "`].")]
        #[repr(transparent)]
        #[derive(StableAbi, Debug, Clone, Copy)]
        pub struct $Pointer {
            #[sabi(unsafe_change_type = $Ref)]
            at: *const $Raw,
        }

        $(#[doc = $doc])*
        pub struct $Safe<'a> {
            $( $(#[doc = $field_doc])* pub $field: <$t as Argument>::Safe<'a>, )*
        }

        // SAFETY: the structure is `repr(C)` and begins with its size. All zeros are a valid value
        // of the other fields.
        unsafe impl Grows for $Raw {
            const LEAST: usize = {
                let ends = [$( std::mem::offset_of!($Raw, $first) + size_of::<$first_type>() ),*];
                // The end of the structure includes its padding, because the value of the `size`
                // field also includes the padding.
                ends[ends.len() - 1].next_multiple_of(align_of::<$Raw>())
            };
        }

        // A new field must not be placed in a structure's former padding. Otherwise, this side
        // would read it although an older side never set it.
        const _: () = {
            let offsets = [$( std::mem::offset_of!($Raw, $field) ),*];
            let mut added = <[&str]>::len(&[$(stringify!($first)),*]);
            while added < offsets.len() {
                assert!(offsets[added] % align_of::<$Raw>() == 0, "an added fact must be at a multiple of eight bytes");
                added += 1;
            }
        };

        impl Argument for $Pointer {
            type Safe<'a> = $Safe<'a>;
            type Stored = $Raw;
            const C: &'static str = concat!("const Ferry", stringify!($Raw), " *");

            fn store(safe: $Safe<'_>) -> $Raw {
                $Raw {
                    size: size_of::<$Raw>(),
                    $( $field: <$t as Argument>::raw(&mut <$t as Argument>::store(safe.$field)), )*
                }
            }

            fn raw(stored: &mut $Raw) -> Self {
                Self { at: stored }
            }

            unsafe fn raise<'a>(self) -> Result<Self::Safe<'a>, Failure> {
                // SAFETY: the caller upholds this function's safety contract.
                let raw = unsafe { adopt_as(concat!("Ferry", stringify!($Raw)), self.at) }?;
                // SAFETY: the caller upholds this function's safety contract.
                Ok($Safe { $( $field: unsafe { <$t as Argument>::raise(raw.$field) }?, )* })
            }
        }

        impl Described for $Raw {
            const FACTS: ObjectFacts = ObjectFacts {
                name: concat!("Ferry", stringify!($Raw)),
                docs: &[$($doc),*],
                slots: &[$(SlotFacts {
                    name: stringify!($field),
                    docs: &[$($field_doc),*],
                    arguments: &[],
                    answers: &[("", <$t as Argument>::C)],
                    offset: std::mem::offset_of!($Raw, $field),
                }),*],
                size: size_of::<$Raw>(),
                #[cfg(test)]
                adopted: crate::grows::adopted::<$Raw>,
            };
        }
    };
}

/// The `extension` slot of all objects. In this revision, there are no extensions.
pub(crate) unsafe extern "C" fn no_extension(
    _this: *mut c_void,
    _id: Text,
    table: *mut *const c_void,
    _err: ErrorSink,
) -> i32 {
    // SAFETY: the rules allow the called function to write a result.
    unsafe { table.write(std::ptr::null()) };
    DONE
}

pub(crate) use {object, request};
