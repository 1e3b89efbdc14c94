//! A ferry plugin for tray, a format for rows. All numbers are little-endian:
//!
//! ```text
//! 0      m bytes   the magic: 0x89, "TRAY", 0x0d, 0x0a, 0x1a, 0x0a
//! m      u16       number of columns, then for each:
//!                    u8       1 integers of 64 bits, 2 floats of 64 bits, 3 text
//!                    u8       b: bytes of the name
//!                    b bytes  the name in UTF-8
//! then             the rows, each:
//!                    u32      bytes of the row, except these four
//!                    for each column: u8, 0 null or 1 a value; if 1, eight bytes, or for text a u32 length and the bytes
//! ```
//!
//! The magic bytes begin with a byte that is not text, so text files never match. They also contain
//! both kinds of line endings, which reveal that a file was damaged by a text-mode transfer.
#![forbid(unsafe_code)]

mod column;
mod read;
mod write;

use tensorferry_sdk::records::{RecordReader, RecordWriter};
use tensorferry_sdk::{Capabilities, Description, Format, Options, Result, export_plugin};

export_plugin!(TrayFormat);

const MAGIC: &[u8] = b"\x89TRAY\r\n\x1a\n";

#[derive(Debug, Clone, Copy)]
pub struct TrayFormat;

impl Format for TrayFormat {
    fn describe(&self) -> Description {
        Description::new("tray", "Tray rows")
            .suffixes([".tray"])
            .magic(0, MAGIC)
            .capabilities(Capabilities::READ_RECORDS | Capabilities::WRITE_RECORDS)
    }

    fn record_reader(&self, _options: &Options) -> Result<Box<dyn RecordReader>> {
        Ok(Box::new(read::Reader))
    }

    fn record_writer(&self, _options: &Options) -> Result<Box<dyn RecordWriter>> {
        Ok(Box::new(write::Writer))
    }
}
