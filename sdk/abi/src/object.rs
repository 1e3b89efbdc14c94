//! Borrowed and owned objects that cross the boundary. An object consists of a function table and a
//! pointer to the object's data.

use crate::crossing::{Answer, Argument};
use crate::error_sink::{ErrorSink, call};
use crate::failure::{Failure, Sender};
use crate::grows::{Grows, adopt_as};
use abi_stable::StableAbi;
use std::ffi::c_void;
use std::marker::PhantomData;

/// The functions of one kind of object.
///
/// # Safety
/// The object type must consist of a pointer to such a table and a pointer that is passed to the
/// table's functions.
pub unsafe trait Table: Grows + 'static {
    /// Type of the objects that have this table.
    type Object: Copy + 'static;
    /// Name of the object kind.
    const NAME: &'static str;
    /// The side that implements objects of this kind.
    const OWNER: Sender;

    /// Creates an object from a table and a data pointer.
    fn object(table: *const Self, this: *mut c_void) -> Self::Object;

    /// Returns the table and the data pointer of an object.
    fn halves(object: Self::Object) -> (*const Self, *mut c_void);

    /// Returns the function that destroys the object.
    fn drop_slot(&self) -> Option<unsafe extern "C" fn(this: *mut c_void, err: ErrorSink) -> i32>;
}

/// A table whose objects many threads may call at the same time.
///
/// # Safety
/// The crate's rules must allow calls from many threads at the same time.
pub unsafe trait Shared: Table {}

/// A type on this side whose values can be passed to the other side as objects with the table `T`.
///
/// # Safety
/// The functions of both tables must accept a pointer to a value of this type. The functions of
/// [`OWNED`](Self::OWNED) must accept a pointer from a `Box`.
pub unsafe trait Lend<T: Table> {
    /// The table for borrowed objects, whose `drop` does nothing.
    const BORROWED: &'static T;
    /// The table for owned objects, whose `drop` frees the value.
    const OWNED: &'static T;
}

/// A reference to an object on the other side, with the slots that both sides support.
pub struct Handle<T> {
    pub(crate) table: T,
    pub(crate) this: *mut c_void,
}

// SAFETY: the crate's rules allow many threads to call a shared object.
unsafe impl<T: Shared> Send for Handle<T> {}
// SAFETY: the crate's rules allow many threads to call a shared object.
unsafe impl<T: Shared> Sync for Handle<T> {}

impl<T: Table> Handle<T> {
    /// # Safety
    /// The object must follow the crate's rules for as long as the handle is used.
    unsafe fn new(object: T::Object) -> Result<Self, Failure> {
        let (table, this) = T::halves(object);
        // SAFETY: the caller upholds this function's safety contract.
        let table = unsafe { adopt_as(&format!("Ferry{}Table", T::NAME), table) }?;
        Ok(Self { table, this })
    }
}

/// A borrowed object.
pub struct Borrowed<'a, T: Table> {
    handle: Handle<T>,
    object: T::Object,
    life: PhantomData<&'a mut ()>,
}

// SAFETY: the crate's rules allow many threads to call a shared object.
unsafe impl<T: Shared> Send for Borrowed<'_, T> {}
// SAFETY: the crate's rules allow many threads to call a shared object.
unsafe impl<T: Shared> Sync for Borrowed<'_, T> {}

impl<'a, T: Table> Borrowed<'a, T> {
    /// Lends a value that many threads may call at the same time.
    pub fn shared<V: Lend<T>>(value: &'a V) -> Self
    where
        T: Shared,
    {
        Self::of(V::BORROWED, std::ptr::from_ref(value).cast_mut().cast())
    }

    /// Lends a value that only one thread may call.
    pub fn sink<V: Lend<T>>(value: &'a mut V) -> Self {
        Self::of(V::BORROWED, std::ptr::from_mut(value).cast())
    }

    fn of(table: &'static T, this: *mut c_void) -> Self {
        Self { handle: Handle { table: *table, this }, object: T::object(table, this), life: PhantomData }
    }

    /// # Safety
    /// The safety conditions of [`Argument::raise`] apply.
    pub(crate) unsafe fn raise(object: T::Object) -> Result<Self, Failure> {
        // SAFETY: the caller upholds this function's safety contract.
        Ok(Self { handle: unsafe { Handle::new(object) }?, object, life: PhantomData })
    }

    pub(crate) fn object(&self) -> T::Object {
        self.object
    }
}

impl<T: Table> std::ops::Deref for Borrowed<'_, T> {
    type Target = Handle<T>;

    fn deref(&self) -> &Handle<T> {
        &self.handle
    }
}

/// An owned object. The object is dropped only once: by [`close`](Self::close), or when this value
/// is dropped.
pub struct Owned<T: Table> {
    handle: Handle<T>,
    object: T::Object,
    is_open: bool,
}

// SAFETY: the crate's rules allow many threads to call a shared object.
unsafe impl<T: Shared> Send for Owned<T> {}
// SAFETY: the crate's rules allow many threads to call a shared object.
unsafe impl<T: Shared> Sync for Owned<T> {}

impl<T: Table> Owned<T> {
    /// Creates an object from a value on this side and transfers the object to the other side.
    #[must_use]
    pub fn give<V: Lend<T> + 'static>(value: V) -> Self {
        let this = Box::into_raw(Box::new(value)).cast();
        Self { handle: Handle { table: *V::OWNED, this }, object: T::object(V::OWNED, this), is_open: true }
    }

    /// # Safety
    /// The safety conditions of [`Argument::raise`] apply. In addition, the object must
    /// have no other owner.
    pub(crate) unsafe fn raise(object: T::Object) -> Result<Self, Failure> {
        // SAFETY: the caller upholds this function's safety contract.
        Ok(Self { handle: unsafe { Handle::new(object) }?, object, is_open: true })
    }

    /// Transfers ownership of the object to the caller.
    pub(crate) fn into_object(mut self) -> T::Object {
        self.is_open = false;
        self.object
    }

    /// Destroys the object and returns the result of its `drop`.
    ///
    /// # Errors
    /// Returns the failure that the object's `drop` reported.
    pub fn close(&mut self) -> Result<(), Failure> {
        if !std::mem::take(&mut self.is_open) {
            return Ok(());
        }
        let Some(drop) = self.handle.table.drop_slot() else { return Ok(()) };
        // SAFETY: the object is owned, has not been dropped, and is not used again.
        call(T::OWNER, |err| unsafe { drop(self.handle.this, err) })
    }
}

impl<T: Table> Drop for Owned<T> {
    fn drop(&mut self) {
        // The result is ignored here. Callers that need it use `close`.
        let _ = self.close();
    }
}

impl<T: Table> std::ops::Deref for Owned<T> {
    type Target = Handle<T>;

    fn deref(&self) -> &Handle<T> {
        &self.handle
    }
}

/// An object whose ownership passes to the receiver of the call.
#[repr(transparent)]
#[derive(StableAbi, Debug, Clone, Copy)]
pub struct Given<O>(pub(crate) O);

/// An object type with a table.
pub trait ObjectOf: Copy + 'static {
    /// Table type of the object.
    type Table: Table<Object = Self>;
    /// Name of the object in C.
    const C: &'static str;
}

impl<O: ObjectOf> Argument for Given<O> {
    type Safe<'a> = Owned<O::Table>;
    type Stored = Self;
    const C: &'static str = O::C;

    fn store(safe: Owned<O::Table>) -> Self {
        Self(safe.into_object())
    }

    fn raw(stored: &mut Self) -> Self {
        *stored
    }

    unsafe fn raise<'a>(self) -> Result<Self::Safe<'a>, Failure> {
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { Owned::raise(self.0) }
    }
}

impl<O: ObjectOf> Answer for Given<O> {
    type Safe<'s> = Owned<O::Table>;
    const C: &'static str = O::C;

    fn lower(safe: Owned<O::Table>) -> Self {
        Self(safe.into_object())
    }

    unsafe fn raise<'s>(self) -> Result<Self::Safe<'s>, Failure> {
        // SAFETY: the caller upholds this function's safety contract.
        unsafe { Owned::raise(self.0) }
    }
}
