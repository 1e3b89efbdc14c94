//! Parquet: rows in columns, columns in pages.
//!
//! ```text
//! 0          4 bytes   PAR1
//! 4                    row groups, each a chunk of pages for every column: a page is a header (Thrift
//!                      compact) and its bytes, compressed by the chunk's codec
//! end - 8 - n  n bytes the footer (Thrift compact): the schema, where each chunk lies, key-value metadata;
//!                      ARROW:schema has the Arrow schema, base64 of its IPC message
//! end - 8    4 bytes   n, little-endian
//! end - 4    4 bytes   PAR1
//! ```
//!
//! One split is one row group. Pages are decoded and encoded by the `parquet` crate; what is here bounds
//! what a hostile file can make it allocate, and puts row groups that were encoded apart into one file.
//!
//! Sources: `apache/parquet-format` (README.md, `parquet.thrift`, Encodings.md), the `parquet` crate.
#![forbid(unsafe_code)]

mod probe;
mod read;
mod write;

mod fault;
mod logical;
mod nested;
mod options;

use options::Int96Unit;
use tensorferry_sdk::records::{RecordReader, RecordWriter};
use tensorferry_sdk::{Capabilities, Context, Description, Format, Options, Result, Score, Source};

const MAGIC: &[u8; 4] = b"PAR1";
/// A file whose footer is encrypted begins and ends with this instead.
const ENCRYPTED_MAGIC: &[u8; 4] = b"PARE";
const SUFFIXES: [&str; 3] = [".parquet", ".pq", ".parq"];

/// How deep groups may lie in groups, whatever the limits: so that the library's recursion fits into the stack of
/// a thread, of 2 MiB, even where it is not optimized.
const MOST_DEPTH: u64 = 64;
/// How many of them may be lists, which take more of the stack than other groups.
const MOST_LISTS: u64 = 16;
/// How many fields may lie in one another where the Arrow schema is in the metadata: Arrow's libraries refuse one of more than
/// 64 tables in one another, of which the message around it takes a few.
const MOST_FIELDS: u64 = 60;

/// The format.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parquet;

impl Format for Parquet {
    fn describe(&self) -> Description {
        Description::new("parquet", "Parquet")
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

    fn record_reader(&self, options: &Options) -> Result<Box<dyn RecordReader>> {
        Ok(Box::new(read::Reader(Int96Unit::of(options)?)))
    }

    fn record_writer(&self, options: &Options) -> Result<Box<dyn RecordWriter>> {
        Ok(Box::new(write::Writer(options::WriteOptions::new(options)?)))
    }
}

/// The formats of this crate, for a program that links it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Parquet)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
