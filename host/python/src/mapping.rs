//! Memory-mapped bytes of a tensor as a Python buffer. Changes are visible only in this process.
#![expect(unsafe_code, reason = "a mapping is as sound as the file behind it")]

use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_int;
use std::sync::Mutex;
use tensorferry::{MappedPrivate, Result, Tensor};

/// Bytes that stay mapped while an array refers to them.
#[pyclass(frozen, module = "tensorferry._native")]
pub(crate) struct Mapping {
    map: Mutex<MappedPrivate>,
}

impl Mapping {
    pub(crate) fn new(tensor: &Tensor) -> Result<Self> {
        // SAFETY: the user requested a mapping, and the documentation says that the file must not
        // change.
        let map = unsafe { tensor.map_private() }?;
        Ok(Self { map: Mutex::new(map) })
    }
}

#[pymethods]
impl Mapping {
    /// # Safety
    /// `view` must be the `Py_buffer` to fill that Python passes.
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let mut map = slf.get().map.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (data, len) = (map.as_mut_ptr(), isize::try_from(map.len()).unwrap_or(isize::MAX));
        // SAFETY: the view keeps the mapping alive at a fixed address. Python arrays may share
        // writable memory.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), data.cast(), len, 0, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
