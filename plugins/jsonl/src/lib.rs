//! JSON lines: one JSON object a line, a line a row.
//!
//! ```text
//! {"id": 1, "name": "a", "vector": [0.5, 1.5]}\n
//! {"id": 2, "name": null}\n
//! ```
//!
//! Lines end with `\n`, blank ones are no rows, and the last one may lack its end. A file may be
//! compressed as a whole, with gzip or Zstandard. A column's type is found by reading every line, or is
//! given by the user.
//!
//! What JSON cannot say is said in strings, both ways where the column's type is known: bytes in base64, floats
//! that are no numbers as `"NaN"`, `"Infinity"` and `"-Infinity"`, times as in RFC 3339. Integers are exact, whatever
//! their length. A line has at most 60 levels of objects and lists in one another.
//!
//! Sources: jsonlines.org, RFC 8259; protobuf's JSON mapping for bytes and floats.
#![forbid(unsafe_code)]

mod probe;
mod read;
mod write;

mod options;

use tensorferry_sdk::records::{RecordReader, RecordWriter};
use tensorferry_sdk::{Capabilities, Context, Description, Format, Options, Result, Score, Source};

/// Endings of files that are surely JSON lines; the first names outputs.
const SUFFIXES: [&str; 4] = [".jsonl", ".ndjson", ".jsonlines", ".jl"];
/// An ending that documents of one object have too.
const LOOSE_SUFFIX: &str = ".json";

/// How many levels a line may have, whatever the limits, so that other formats can hold them: Arrow's libraries refuse schemas of
/// more than 64 tables in one another, of which the message takes a few. What follows arrays by recursion fits into the stack of
/// a thread then, of 2 MiB, even where it is not optimized.
const MOST_LEVELS: u64 = 60;

/// The format.
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

/// The formats of this crate, for a program that links it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(JsonLines)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
