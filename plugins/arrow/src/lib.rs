//! Arrow IPC: a stream or a file of record batches, whose layout is the same as in memory. Feather
//! V2 is another name for the file format.
//!
//! ```text
//! message   FF FF FF FF | i32 length n of the metadata | n bytes: a flatbuffer Message | its body
//!           before Arrow 0.15 the length came first
//! stream    the schema | dictionaries and record batches, in order | FF FF FF FF 00 00 00 00, or the file's end
//! file      ARROW1 00 00 | a stream | a flatbuffer Footer | i32 its length | ARROW1
//! ```
//!
//! All numbers are little-endian. A file's footer lists its dictionaries and batches. A stream has
//! no such list, so the reader scans all messages. Each split is a run of consecutive batches. A
//! large batch is read in slices of rows, so its size is not limited by memory. In a
//! stream, a later message may extend or replace a dictionary. In a file, a dictionary can only be
//! extended, so all pieces of a file must share their dictionaries.
//!
//! Sources: Arrow's "Columnar Format" (Message.fbs, Schema.fbs, File.fbs), the `arrow-ipc` crate,
//! and files written by pyarrow.
#![forbid(unsafe_code)]

mod probe;
mod read;
mod write;

mod fault;
mod options;

use tensorferry_sdk::records::{RecordReader, RecordWriter};
use tensorferry_sdk::{Capabilities, Context, Description, Format, Options, Result, Score, Source};

const MAGIC: &[u8; 6] = b"ARROW1";
/// Magic number of Feather V1, the format from 2016, which is not Arrow IPC.
const FEATHER_V1: &[u8; 4] = b"FEA1";
/// First bytes of a message that Arrow 0.15 or later wrote.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// File name suffixes. The first one is the default for output files.
const SUFFIXES: [&str; 4] = [".arrow", ".arrows", ".feather", ".ipc"];
const STREAM_SUFFIX: &str = ".arrows";

#[derive(Debug, Clone, Copy, Default)]
pub struct Arrow;

impl Format for Arrow {
    fn describe(&self) -> Description {
        Description::new("arrow", "Arrow IPC, Feather")
            .suffixes(SUFFIXES)
            .magic(0, MAGIC)
            .members(SUFFIXES.map(|suffix| format!("*{suffix}")))
            .capabilities(Capabilities::READ_RECORDS | Capabilities::WRITE_RECORDS | Capabilities::METADATA)
            .options(options::declared())
            .output_revision(1)
    }

    fn probe(&self, source: &dyn Source, _context: &dyn Context) -> Result<Option<Score>> {
        probe::score(source).map(Some)
    }

    fn record_reader(&self, _options: &Options) -> Result<Box<dyn RecordReader>> {
        Ok(Box::new(read::Reader))
    }

    fn record_writer(&self, options: &Options) -> Result<Box<dyn RecordWriter>> {
        Ok(Box::new(write::Writer(options::WriteOptions::new(options)?)))
    }
}

/// Returns the formats of this crate, for programs that link it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Arrow)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
