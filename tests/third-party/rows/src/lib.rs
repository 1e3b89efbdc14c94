//! A plain format of rows, as its author writes a plugin: with the SDK alone.
//!
//! ```text
//! 8 bytes  "ROWSFILE"
//! u16      how many columns; for each:
//!   u8       its kind: 0 i64, 1 f32, 2 bytes; 16 more for lists of it
//!   u16, ..  the length of its name, its name
//! then rows:
//! u32      bytes of the rest of the row; for each column:
//!   u8       0 null, 1 not; if it is not:
//!   u32      for lists: how many values
//!   ..       the values: 8 bytes, 4 bytes, or a u32 and so many bytes
//! ```
//!
//! All numbers are little-endian. A null within a list has no place: it is left out, which is a loss.
#![forbid(unsafe_code)]

mod column;
mod read;
mod write;

use tensorferry_sdk::records::{RecordReader, RecordWriter};
use tensorferry_sdk::{Capabilities, Description, Format, Magic, OptionKind, OptionSpec, Options, Result};

const MAGIC: &[u8] = b"ROWSFILE";

/// The format.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rows;

impl Format for Rows {
    fn describe(&self) -> Description {
        let rows = "rows of one split, about: how finely reading is divided over threads";
        let piece = "rows of one piece: how finely writing is divided over threads";
        Description {
            id: "rows".to_owned(),
            title: "plain rows".to_owned(),
            suffixes: vec![".rows".to_owned()],
            magic: vec![Magic { offset: 0, bytes: MAGIC.to_vec() }],
            capabilities: Capabilities::READ_RECORDS | Capabilities::WRITE_RECORDS,
            options: vec![
                OptionSpec::reader("split", OptionKind::Integer, Some("4096"), rows),
                OptionSpec::writer("piece", OptionKind::Integer, Some("4096"), piece),
            ],
            output_revision: 1,
            ..Description::default()
        }
    }

    fn record_reader(&self, options: &Options) -> Result<Box<dyn RecordReader>> {
        Ok(Box::new(read::Reader { split: options.integer("split").unwrap_or(4096).max(1) }))
    }

    fn record_writer(&self, options: &Options) -> Result<Box<dyn RecordWriter>> {
        let piece = options.integer("piece").and_then(|rows| usize::try_from(rows).ok());
        Ok(Box::new(write::Writer { piece: piece.unwrap_or(4096).max(1) }))
    }
}

tensorferry_sdk::export_plugin!(Rows);
