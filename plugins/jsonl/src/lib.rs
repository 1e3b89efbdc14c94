//! JSON lines. Each line contains one JSON object, which is one row.
//!
//! ```text
//! {"id": 1, "name": "a", "vector": [0.5, 1.5]}\n
//! {"id": 2, "name": null}\n
//! ```
//!
//! Lines end with `\n`. Blank lines are skipped, and the last line may lack a line ending. A whole
//! file may be compressed with gzip or Zstandard. The type of a column is inferred from every line,
//! or set by the user.
//!
//! Values that JSON cannot represent are written as strings. Bytes are written in base64, NaN and
//! infinities as `"NaN"`, `"Infinity"` and `"-Infinity"`, and times as in RFC 3339. If the type of
//! the column is set, the original values are read back. Integers are exact, regardless of their
//! length. A line has at most 60 levels of nested objects and lists.
//!
//! Sources: jsonlines.org, RFC 8259, and protobuf's JSON mapping for bytes and floats.
#![forbid(unsafe_code)]

mod probe;
mod read;
mod write;

mod options;

use tensorferry_sdk::records::{RecordReader, RecordWriter};
use tensorferry_sdk::{Capabilities, Context, Description, Format, Options, Result, Score, Source};

/// Suffixes of files that always contain JSON lines. The first one is the default for output files.
const SUFFIXES: [&str; 4] = [".jsonl", ".ndjson", ".jsonlines", ".jl"];
/// Suffix of files that contain either JSON lines or a single JSON document.
const LOOSE_SUFFIX: &str = ".json";

/// Maximum number of nesting levels in a line, regardless of the limits. Arrow libraries reject
/// schemas with more than 64 nested tables, and the message around the schema uses a few of these
/// levels. The maximum also keeps recursion over arrays within a 2 MiB thread stack, even in a
/// build without optimizations.
const MAX_LEVELS: u64 = 60;

#[derive(Debug, Clone, Copy, Default)]
pub struct JsonLines;

impl Format for JsonLines {
    fn describe(&self) -> Description {
        let suffixes = tensorferry_row_text::with_suffixes(&SUFFIXES);
        Description::new("jsonl", "JSON lines")
            .suffixes(suffixes.clone())
            .members(suffixes.map(|suffix| format!("*{suffix}")))
            .capabilities(Capabilities::READ_RECORDS | Capabilities::WRITE_RECORDS)
            .options(options::declared())
            .output_revision(1)
    }

    fn probe(&self, source: &dyn Source, _context: &dyn Context) -> Result<Option<Score>> {
        probe::score(source).map(Some)
    }

    fn record_reader(&self, options: &Options) -> Result<Box<dyn RecordReader>> {
        Ok(Box::new(read::Reader(options::ReadOptions::new(options)?)))
    }

    fn record_writer(&self, options: &Options) -> Result<Box<dyn RecordWriter>> {
        Ok(Box::new(write::Writer(options::WriteOptions::new(options)?)))
    }
}

/// Returns the formats of this crate, for programs that link it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(JsonLines)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
