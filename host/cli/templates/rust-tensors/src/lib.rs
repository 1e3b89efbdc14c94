//! A ferry plugin for tray, a format for tensors. All numbers are little-endian:
//!
//! ```text
//! 0      m bytes   the magic: 0x89, "TRAY", 0x0d, 0x0a, 0x1a, 0x0a
//! m      u32       number of tensors
//! m + 4  u32       h: bytes of the entries
//! m + 8  h bytes   the entries, one for each tensor:
//!                    u8       the dtype's code
//!                    u8       r: number of dimensions
//!                    u16      b: bytes of the name
//!                    r * u64  the shape
//!                    b bytes  the name in UTF-8
//! then             the tensors' elements, in the order of the entries, row-major, without gaps, up to the end of the file
//! ```
//!
//! The magic bytes begin with a byte that is not text, so text files never match. They also contain
//! both kinds of line endings, which reveal that a file was damaged by a text-mode transfer.
#![forbid(unsafe_code)]

mod read;
mod write;

use tensorferry_sdk::{
    Capabilities, Description, Dtype, Format, Options, Result, TensorReader, TensorWriter, export_plugin,
};

export_plugin!(TrayFormat);

const MAGIC: &[u8] = b"\x89TRAY\r\n\x1a\n";

/// The dtypes of tensors with their codes. A code is never reused for a different dtype.
const DTYPES: &[(u8, Dtype)] = &[
    (1, Dtype::BOOL),
    (2, Dtype::U8),
    (3, Dtype::I8),
    (4, Dtype::U16),
    (5, Dtype::I16),
    (6, Dtype::U32),
    (7, Dtype::I32),
    (8, Dtype::U64),
    (9, Dtype::I64),
    (10, Dtype::F16),
    (11, Dtype::BF16),
    (12, Dtype::F32),
    (13, Dtype::F64),
];

#[derive(Debug, Clone, Copy)]
pub struct TrayFormat;

impl Format for TrayFormat {
    fn describe(&self) -> Description {
        Description::new("tray", "Tray tensors")
            .suffixes([".tray"])
            .magic(0, MAGIC)
            .capabilities(Capabilities::READ | Capabilities::WRITE)
    }

    fn reader(&self, _options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(read::Reader))
    }

    fn writer(&self, _options: &Options) -> Result<Box<dyn TensorWriter>> {
        Ok(Box::new(write::Writer))
    }
}
