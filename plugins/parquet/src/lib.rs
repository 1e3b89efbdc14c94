//! Parquet stores rows as columns, and each column as pages.
//!
//! ```text
//! 0          4 bytes   PAR1
//! 4                    row groups, each a chunk of pages for every column: a page is a header (Thrift
//!                      compact) and its bytes, compressed by the chunk's codec
//! end - 8 - n  n bytes the footer (Thrift compact): the schema, the offset of each chunk, key-value metadata;
//!                      ARROW:schema has the Arrow schema, base64 of its IPC message
//! end - 8    4 bytes   n, little-endian
//! end - 4    4 bytes   PAR1
//! ```
//!
//! Each row group is one split. The `parquet` crate decodes and encodes pages. This crate limits
//! the memory that the `parquet` crate allocates for a hostile file, and joins separately encoded
//! row groups into one file.
//!
//! Sources: `apache/parquet-format` (README.md, `parquet.thrift`, Encodings.md), and the `parquet`
//! crate.
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
/// Magic bytes at both ends of a file with an encrypted footer.
const ENCRYPTED_MAGIC: &[u8; 4] = b"PARE";
const SUFFIXES: [&str; 3] = [".parquet", ".pq", ".parq"];

/// Maximum nesting of groups, regardless of the limits. This maximum keeps the `parquet` crate's
/// recursion within a 2 MiB thread stack, even in a build without optimizations.
const MAX_DEPTH: u64 = 64;
/// Maximum number of nested lists, which use more stack than other groups.
const MAX_LISTS: u64 = 16;
/// Maximum nesting of fields if the file contains an Arrow schema. Arrow libraries reject more than
/// 64 nested tables, and the message that contains the schema uses up a few of these.
const MAX_FIELDS: u64 = 60;

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

/// Returns the formats of this crate, for programs that link the crate.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Parquet)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
