//! Memory allocated by frameworks, as a target for a tensor's bytes or as a source to write to a
//! file.
//!
//! While the engine uses the memory, nothing may free it. While the engine fills the memory,
//! nothing else may read it. This module keeps the owner of the memory alive during that time.
//! Python users follow the usual rules for buffers passed to a function.
#![expect(unsafe_code, reason = "memory with other owners")]

use crate::dlpack::{Lent, row_major};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tensorferry::{Dtype, SharedBytes};

/// Contiguous bytes to fill.
pub(crate) struct Writable {
    data: *mut u8,
    len: usize,
    _owner: Owner,
}

/// The owner of the memory: exactly one field is set.
struct Owner {
    _buffer: Option<PyBuffer<u8>>,
    _lent: Option<Lent>,
}

impl From<PyBuffer<u8>> for Owner {
    fn from(buffer: PyBuffer<u8>) -> Self {
        Self { _buffer: Some(buffer), _lent: None }
    }
}

impl From<Lent> for Owner {
    fn from(lent: Lent) -> Self {
        Self { _buffer: None, _lent: Some(lent) }
    }
}

/// Creates a Python `bytes` object that `fill` fills. `PyBytes::new_with` would first zero the
/// memory with the GIL held.
pub(crate) fn new_bytes<'py>(
    py: Python<'py>,
    len: usize,
    fill: impl FnOnce(&mut [u8]) -> PyResult<()>,
) -> PyResult<Bound<'py, PyBytes>> {
    let size = ffi::Py_ssize_t::try_from(len)?;
    // SAFETY: the object is new and unshared, and has `len` bytes. These bytes are uninitialized,
    // as in a new array of a framework, and `fill` only writes to them.
    unsafe {
        let object = ffi::PyBytes_FromStringAndSize(std::ptr::null(), size);
        let bytes = Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked::<PyBytes>();
        if len > 0 {
            let data = ffi::PyBytes_AsString(bytes.as_ptr()).cast::<u8>();
            fill(std::slice::from_raw_parts_mut(data, len))?;
        }
        Ok(bytes)
    }
}

// SAFETY: the memory stays valid while the owner is alive.
unsafe impl Send for Writable {}

impl Writable {
    /// Accepts an object with a buffer of bytes, or an object that exports its memory with
    /// `DLPack`.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if object.hasattr("__dlpack__")? && !has_buffer(object) {
            let lent = Lent::of(object)?;
            let len: u64 = lent.shape.iter().product();
            if lent.is_read_only || lent.dtype != Dtype::U8 || lent.strides != row_major(&lent.shape) {
                return Err(PyBufferError::new_err("the memory is not writable, contiguous bytes"));
            }
            let len = usize::try_from(len).unwrap_or(0);
            return Ok(Self { data: lent.data, len, _owner: lent.into() });
        }
        let buffer = PyBuffer::<u8>::get(object)?;
        if buffer.readonly() || !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the memory is not writable, contiguous bytes"));
        }
        Ok(Self { data: buffer.buf_ptr().cast(), len: buffer.len_bytes(), _owner: buffer.into() })
    }

    /// Returns the memory as a mutable slice.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        if self.len == 0 {
            return &mut [];
        }
        // SAFETY: the owner reports this length and keeps the memory alive; see the module
        // documentation.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.len) }
    }
}

fn has_buffer(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the pointer points to a valid Python object.
    unsafe { pyo3::ffi::PyObject_CheckBuffer(object.as_ptr()) == 1 }
}

/// The tensor of an array to write.
pub(crate) struct Readable {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
    strides: Vec<i64>,
    data: *const u8,
    /// The bytes of an element, or 1 for contiguous bytes of any dtype.
    width: usize,
    len: usize,
    _owner: Owner,
}

impl Readable {
    /// Accepts an object that exports its memory with `DLPack`.
    pub(crate) fn lent(array: &Bound<'_, PyAny>) -> PyResult<Self> {
        let lent = Lent::of(array)?;
        let width = width(lent.dtype)?;
        let (dtype, shape, strides, data) = (lent.dtype, lent.shape.clone(), lent.strides.clone(), lent.data);
        let elements = usize::try_from(shape.iter().product::<u64>()).unwrap_or(0);
        let len = elements.saturating_mul(width);
        Ok(Self { dtype, shape, strides, data, width, len, _owner: lent.into() })
    }

    /// Accepts contiguous bytes with their dtype and shape.
    pub(crate) fn bytes(object: &Bound<'_, PyAny>, dtype: Dtype, shape: Vec<u64>) -> PyResult<Self> {
        let buffer = PyBuffer::<u8>::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyBufferError::new_err("the bytes are not contiguous"));
        }
        let strides = row_major(&shape);
        let (data, len) = (buffer.buf_ptr().cast_const().cast(), buffer.len_bytes());
        Ok(Self { dtype, shape, strides, data, width: 1, len, _owner: buffer.into() })
    }

    /// Returns the location and the layout of the tensor. Two tensors with the same result are
    /// tied.
    pub(crate) fn identity(&self) -> (usize, u32, Vec<u64>, Vec<i64>) {
        (self.data as usize, self.dtype.id(), self.shape.clone(), self.strides.clone())
    }

    /// Returns the bytes in row-major order. If the bytes already have this order, they are not
    /// copied.
    pub(crate) fn into_bytes(self) -> SharedBytes {
        let side_by_side = self.len == 0 || self.strides == row_major(&self.shape);
        if side_by_side { SharedBytes::new(self) } else { self.gathered().into() }
    }

    /// Copies the elements in row-major order.
    fn gathered(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.len);
        let mut index = vec![0_u64; self.shape.len()];
        let row = self.shape.last().copied().unwrap_or(1);
        let step = self.strides.last().copied().unwrap_or(1);
        loop {
            let outer = index.iter().zip(&self.strides).take(self.shape.len().saturating_sub(1));
            let start: i64 = outer.map(|(&at, &stride)| at.cast_signed() * stride).sum();
            for at in 0..row.cast_signed() {
                let element = isize::try_from(start + at * step).unwrap_or(0) * self.width.cast_signed();
                // SAFETY: according to the owner's shape and strides, the element is within the
                // memory.
                let element = unsafe { std::slice::from_raw_parts(self.data.offset(element), self.width) };
                bytes.extend_from_slice(element);
            }
            // Moves to the next row.
            let Some(dim) =
                (0..self.shape.len().saturating_sub(1)).rev().find(|&dim| index[dim] + 1 < self.shape[dim])
            else {
                return bytes;
            };
            index[dim] += 1;
            index[dim + 1..].fill(0);
        }
    }
}

fn width(dtype: Dtype) -> PyResult<usize> {
    let width =
        dtype.info().and_then(|info| info.element_bytes()).and_then(|width| usize::try_from(width).ok());
    width.ok_or_else(|| PyTypeError::new_err("elements of this dtype do not occupy whole bytes"))
}

// SAFETY: the memory does not change while the engine reads it; see the module documentation.
unsafe impl Send for Readable {}
// SAFETY: the memory does not change while the engine reads it; see the module documentation.
unsafe impl Sync for Readable {}

impl AsRef<[u8]> for Readable {
    fn as_ref(&self) -> &[u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the owner reports this many contiguous bytes (checked by `into_bytes`), and keeps
        // them alive.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}
