//! A tensor's bytes where they lie in their file, as a buffer of Python. What is written to it is seen in this process
//! alone.
#![expect(unsafe_code, reason = "a mapping is as sound as the file behind it")]

use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_int;
use std::sync::Mutex;
use tensorferry::{MappedPrivate, Result, Tensor};

/// Bytes that stay mapped as long as an array looks at them.
#[pyclass(frozen, module = "tensorferry._native")]
pub(crate) struct Mapping {
    map: Mutex<MappedPrivate>,
}

impl Mapping {
    /// Maps a tensor.
    pub(crate) fn new(tensor: &Tensor) -> Result<Self> {
        // SAFETY: the user has asked for it, and the documentation says that the file must stay as it is.
        let map = unsafe { tensor.map_private() }?;
        Ok(Self { map: Mutex::new(map) })
    }
}

#[pymethods]
impl Mapping {
    /// # Safety
    /// Python's: `view` is one to be filled.
    unsafe fn __getbuffer__(slf: &Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let mut map = slf.get().map.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let (data, len) = (map.as_mut_ptr(), isize::try_from(map.len()).unwrap_or(isize::MAX));
        // SAFETY: the view holds the mapping, which keeps its place; several views of memory that may be written to are
        // what Python's arrays are.
        let filled = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), data.cast(), len, 0, flags) };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
