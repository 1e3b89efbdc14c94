//! NumPy files. A `.npy` file contains one array, and a `.npz` file is a zip archive of arrays.
//!
//! ```text
//! 0          6 bytes   93 "NUMPY"
//! 6          2 bytes   version: 1.0, 2.0 or 3.0
//! 8          2 or 4    header length: u16 in version 1.0, u32 in 2.0 and 3.0, little-endian
//! 10 or 12   header    a Python dict: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, spaces, \n;
//!                      latin-1 in versions 1.0 and 2.0, UTF-8 in 3.0; numpy pads it to a multiple of 64
//! then       elements  row-major, or column-major if fortran_order, in descr's byte order
//! ```
//!
//! A member `NAME.npy` of an archive contains the array NAME. The member is stored (`np.savez`) or
//! deflated (`np.savez_compressed`, and `-o compression=deflate`).
//!
//! | descr | dtype |
//! |---|---|
//! | `b1`, `i1` to `i8`, `u1` to `u8`, `f2`, `f4`, `f8`, `c8`, `c16` | BOOL, I8 to I64, U8 to U64, F16, F32, F64, C64, C128 |
//! | `U<n>`, `S<n>` | STR, without the padding NULs |
//! | `M8[unit]`, `m8[unit]` | I64; the unit is a loss |
//! | `V1`, `V2` (ml_dtypes), `V<n>` | rejected, unless `-i v1`, `-i v2` or `-i void` gives a dtype |
//! | `bfloat16` and other names of ml_dtypes | BF16, the F8 types; `-o ml_dtypes=name` writes them |
//! | a list of fields | rejected, or with `-i structured=fields` a tensor for each field |
//! | `O`, `f16`, `c32` | rejected: pickles, and long doubles with a machine-dependent layout |
//!
//! A rejected array in an archive is reported as a loss, and the other arrays are still read.
//!
//! Sources: `numpy/lib/_format_impl.py` and `numpy/lib/_npyio_impl.py` of NumPy 2.4, and files that
//! this version wrote.
#![forbid(unsafe_code)]

mod probe;
mod read;
mod write;

mod array;
mod deflate;
mod dtype;
mod encoded;
mod header;
mod literal;
mod options;
mod strings;
mod structure;

use tensorferry_sdk::{
    Capabilities, Context, Description, Format, Options, Result, Score, Source, TensorReader, TensorWriter,
};

/// Suffix of a file that contains one array. The array members of an archive have the same suffix.
const ARRAY_SUFFIX: &str = ".npy";
/// Suffix of an archive of arrays.
const ARCHIVE_SUFFIX: &str = ".npz";

/// The NumPy format.
#[derive(Debug, Clone, Copy, Default)]
pub struct Numpy;

impl Format for Numpy {
    fn describe(&self) -> Description {
        Description::new("numpy", "NumPy arrays: .npy, .npz")
            .suffixes([ARCHIVE_SUFFIX, ARRAY_SUFFIX])
            .magic(0, header::MAGIC)
            .magic(0, tensorferry_zip::MAGIC)
            .magic(0, tensorferry_zip::EMPTY_MAGIC)
            .members(["*.npz", "*.npy"])
            .capabilities(Capabilities::READ | Capabilities::WRITE)
            .options(options::declared())
            .output_revision(1)
    }

    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        probe::score(source, context).map(Some)
    }

    fn reader(&self, options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(read::Reader { options: options::ReadOptions::new(options)? }))
    }

    fn writer(&self, options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(write::Writer { options: options::WriteOptions::new(options)? }))
    }
}

/// Returns the formats of this crate, for programs that link it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Numpy)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
