//! `DLPack`: exchange of tensor memory between frameworks, in the C structures of
//! <https://dmlc.github.io/dlpack/latest/c_api.html> (version 1.1) and the capsules of
//! <https://data-apis.org/array-api/latest/design_topics/data_interchange.html>.
//!
//! This module only reads an imported tensor, and returns the tensor to its producer on drop. An
//! exported tensor has its own memory, aligned to 64 bytes. That memory has no other users, so
//! consumers may write to it.
#![expect(unsafe_code, reason = "C structures, and memory with other owners")]

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{CStr, c_void};
use std::ptr::{NonNull, null_mut};
use tensorferry::Dtype;

const VERSIONED: &CStr = c"dltensor_versioned";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";
const LEGACY: &CStr = c"dltensor";
const USED_LEGACY: &CStr = c"used_dltensor";
const CPU: i32 = 1;
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;
/// The alignment that JAX requires, and the size of a cache line.
const ALIGNMENT: usize = 64;

/// Dtypes that also exist in `DLPack`, with their type codes and bits.
const DTYPES: [(Dtype, u8, u8); 26] = [
    (Dtype::BOOL, 6, 8),
    (Dtype::U8, 1, 8),
    (Dtype::I8, 0, 8),
    (Dtype::U16, 1, 16),
    (Dtype::I16, 0, 16),
    (Dtype::U32, 1, 32),
    (Dtype::I32, 0, 32),
    (Dtype::U64, 1, 64),
    (Dtype::I64, 0, 64),
    (Dtype::F16, 2, 16),
    (Dtype::BF16, 4, 16),
    (Dtype::F32, 2, 32),
    (Dtype::F64, 2, 64),
    (Dtype::C32, 5, 32),
    (Dtype::C64, 5, 64),
    (Dtype::C128, 5, 128),
    (Dtype::F8_E4M3, 10, 8),
    (Dtype::F8_E5M2, 12, 8),
    (Dtype::F8_E4M3FNUZ, 11, 8),
    (Dtype::F8_E5M2FNUZ, 13, 8),
    (Dtype::F8_E4M3B11FNUZ, 9, 8),
    (Dtype::F8_E8M0, 14, 8),
    // A quantized tensor is exchanged as its integers.
    (Dtype::QI8, 0, 8),
    (Dtype::QU8, 1, 8),
    (Dtype::QI16, 0, 16),
    (Dtype::QI32, 0, 32),
];

#[repr(C)]
struct Device {
    kind: i32,
    id: i32,
}

#[repr(C)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

#[repr(C)]
struct ManagedVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: DlTensor,
}

/// An imported tensor.
pub(crate) struct Lent {
    managed: LentAs,
    pub(crate) data: *mut u8,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
    /// Strides in elements.
    pub(crate) strides: Vec<i64>,
    pub(crate) is_read_only: bool,
}

enum LentAs {
    Legacy(NonNull<Managed>),
    Versioned(NonNull<ManagedVersioned>),
}

// SAFETY: any thread may read the memory, and `drop` calls the deleter with the GIL held.
unsafe impl Send for Lent {}
// SAFETY: any thread may read the memory, and nothing is changed through a shared reference.
unsafe impl Sync for Lent {}

impl Lent {
    /// Takes ownership of the tensor from `array.__dlpack__()`.
    pub(crate) fn of(array: &Bound<'_, PyAny>) -> PyResult<Self> {
        let capsule = array.call_method0("__dlpack__")?.cast_into::<PyCapsule>()?;
        let managed = if capsule.is_valid_checked(Some(VERSIONED)) {
            LentAs::Versioned(capsule.pointer_checked(Some(VERSIONED))?.cast())
        } else {
            LentAs::Legacy(capsule.pointer_checked(Some(LEGACY))?.cast())
        };
        let used = if matches!(managed, LentAs::Versioned(_)) { USED_VERSIONED } else { USED_LEGACY };
        // SAFETY: the capsule is valid, and the name has a static lifetime. From now on, this code
        // must call the deleter.
        unsafe { pyo3::ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) };
        let mut lent = Self {
            managed,
            data: null_mut(),
            dtype: Dtype::U8,
            shape: Vec::new(),
            strides: Vec::new(),
            is_read_only: false,
        };
        lent.look()?;
        Ok(lent)
    }

    fn look(&mut self) -> PyResult<()> {
        // SAFETY: according to the protocol, the structure is valid until its deleter is called.
        let (tensor, flags) = unsafe {
            match &self.managed {
                LentAs::Legacy(managed) => (&managed.as_ref().tensor, 0),
                LentAs::Versioned(managed) if managed.as_ref().major == 1 => {
                    (&managed.as_ref().tensor, managed.as_ref().flags)
                }
                LentAs::Versioned(_) => {
                    return Err(PyBufferError::new_err("unsupported major version of DLPack"));
                }
            }
        };
        if tensor.device.kind != CPU {
            return Err(PyBufferError::new_err("the tensor is on another device; move it to the CPU first"));
        }
        let DataType { code, bits, lanes } = tensor.dtype;
        let known = DTYPES.iter().find(|known| (known.1, known.2) == (code, bits)).filter(|_| lanes == 1);
        let (dtype, ..) = *known.ok_or_else(|| {
            PyTypeError::new_err(format!(
                "unsupported DLPack dtype: type code {code}, {bits} bits, {lanes} lanes"
            ))
        })?;
        let dims = usize::try_from(tensor.ndim).unwrap_or(0);
        // SAFETY: according to the protocol, the shape and the strides have one number per
        // dimension. Without dimensions, neither array is read.
        let numbers = |at: *mut i64| unsafe { std::slice::from_raw_parts(at, dims) };
        let shape = if dims == 0 { &[][..] } else { numbers(tensor.shape) };
        self.shape = shape.iter().map(|&dim| u64::try_from(dim).unwrap_or(0)).collect();
        self.strides = if dims == 0 || tensor.strides.is_null() {
            row_major(&self.shape)
        } else {
            numbers(tensor.strides).to_vec()
        };
        // Memory of zero bytes may have a null address. Placeholder tensors (such as meta tensors)
        // have a null address too.
        if tensor.data.is_null() && !self.shape.contains(&0) {
            return Err(PyBufferError::new_err("the array has no memory of its own"));
        }
        self.data = tensor.data.cast::<u8>().wrapping_add(usize::try_from(tensor.byte_offset).unwrap_or(0));
        (self.dtype, self.is_read_only) = (dtype, flags & READ_ONLY != 0);
        Ok(())
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: the deleter is called once, and the memory is not used afterwards.
        Python::attach(|_| unsafe {
            match &self.managed {
                LentAs::Legacy(managed) => {
                    if let Some(deleter) = managed.as_ref().deleter {
                        deleter(managed.as_ptr());
                    }
                }
                LentAs::Versioned(managed) => {
                    if let Some(deleter) = managed.as_ref().deleter {
                        deleter(managed.as_ptr());
                    }
                }
            }
        });
    }
}

/// Returns the strides of contiguous elements, in elements.
pub(crate) fn row_major(shape: &[u64]) -> Vec<i64> {
    let mut strides = vec![1_i64; shape.len()];
    for dim in (1..shape.len()).rev() {
        let len = i64::try_from(shape[dim].max(1)).unwrap_or(i64::MAX);
        strides[dim - 1] = strides[dim].saturating_mul(len);
    }
    strides
}

/// Memory for a tensor to export.
pub(crate) struct Aligned {
    data: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory has no other users.
unsafe impl Send for Aligned {}

impl Aligned {
    /// Allocates `len` bytes, or returns `None` if the allocation fails.
    pub(crate) fn new(len: usize) -> Option<Self> {
        let layout = Layout::from_size_align(len.max(1), ALIGNMENT).ok()?;
        // SAFETY: the layout is not empty. The memory is only used as bytes, which may have any
        // value.
        let data = NonNull::new(unsafe { alloc(layout) })?;
        Some(Self { data, layout })
    }

    /// Returns the memory as a mutable slice.
    pub(crate) fn bytes(&mut self, len: usize) -> &mut [u8] {
        // SAFETY: the memory belongs to `self` and is at least this long, and every byte is a valid
        // `u8`.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), len.min(self.layout.size())) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout.
        unsafe { dealloc(self.data.as_ptr(), self.layout) }
    }
}

/// The parts of an exported tensor, which live as long as it does.
struct Exported {
    _memory: Aligned,
    shape: Box<[i64]>,
    strides: Box<[i64]>,
}

/// Exports a tensor as a capsule, with version 1 of the structure or the legacy structure.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    memory: Aligned,
    dtype: Dtype,
    shape: &[u64],
    versioned: bool,
) -> PyResult<Bound<'py, PyCapsule>> {
    let (_, code, bits) = *DTYPES
        .iter()
        .find(|known| known.0 == dtype)
        .ok_or_else(|| PyBufferError::new_err("DLPack does not have this dtype"))?;
    let data = memory.data.as_ptr().cast();
    let shape_of = shape.iter().map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX)).collect();
    let context =
        Box::new(Exported { _memory: memory, shape: shape_of, strides: row_major(shape).into_boxed_slice() });
    let context = Box::into_raw(context);
    // SAFETY: `context` has just been created, and the boxed slices do not move.
    let (shape_at, strides_at) = unsafe { ((*context).shape.as_mut_ptr(), (*context).strides.as_mut_ptr()) };
    let tensor = DlTensor {
        data,
        device: Device { kind: CPU, id: 0 },
        ndim: i32::try_from(shape.len()).unwrap_or(i32::MAX),
        dtype: DataType { code, bits, lanes: 1 },
        shape: shape_at,
        strides: strides_at,
        byte_offset: 0,
    };
    let context = context.cast();
    let (managed, name): (*mut c_void, _) = if versioned {
        let deleter = Some(free_versioned as unsafe extern "C" fn(*mut ManagedVersioned));
        let made = ManagedVersioned { major: 1, minor: 1, context, deleter, flags: IS_COPIED, tensor };
        (Box::into_raw(Box::new(made)).cast(), VERSIONED)
    } else {
        let deleter = Some(free_legacy as unsafe extern "C" fn(*mut Managed));
        (Box::into_raw(Box::new(Managed { tensor, context, deleter })).cast(), LEGACY)
    };
    let managed = NonNull::new(managed).ok_or_else(|| PyBufferError::new_err("out of memory"))?;
    // SAFETY: the structure lives until its deleter is called on any thread, either by the consumer
    // of the capsule or by `unused`.
    unsafe { PyCapsule::new_with_pointer_and_destructor(py, managed, name, Some(unused)) }
}

/// Frees a tensor that no consumer has taken over.
unsafe extern "C" fn unused(capsule: *mut pyo3::ffi::PyObject) {
    // SAFETY: Python calls this with the capsule that it destroys. If a consumer has taken over the
    // tensor, the capsule has a different name.
    unsafe {
        if pyo3::ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) == 1 {
            free_versioned(pyo3::ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast());
        } else if pyo3::ffi::PyCapsule_IsValid(capsule, LEGACY.as_ptr()) == 1 {
            free_legacy(pyo3::ffi::PyCapsule_GetPointer(capsule, LEGACY.as_ptr()).cast());
        }
    }
}

unsafe extern "C" fn free_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: according to the protocol, the deleter is called once, with the tensor that `capsule`
    // created.
    drop(unsafe { Box::from_raw(Box::from_raw(managed).context.cast::<Exported>()) });
}

unsafe extern "C" fn free_legacy(managed: *mut Managed) {
    // SAFETY: according to the protocol, the deleter is called once, with the tensor that `capsule`
    // created.
    drop(unsafe { Box::from_raw(Box::from_raw(managed).context.cast::<Exported>()) });
}
