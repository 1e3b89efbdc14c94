//! CSV and TSV: a line a row, with types.
//!
//! ```text
//! id,name,score\n          the names of the columns, unless `header=false`
//! 1,"a, ""quoted""",0.5\r\n    a field in quotes may hold the delimiter, line ends and doubled quotes
//! 2,,\n                    an empty field is a null; "" in quotes is an empty text
//! ```
//!
//! | Values of a column | Its type |
//! |---|---|
//! | `true`, `false`, also `True`, `TRUE`, ... | bool |
//! | whole numbers | int64, or uint64 if all fit that alone |
//! | numbers with a point or an exponent, also among whole ones; `NaN`, `inf`, `Infinity` in any case, with a sign or without | float64 |
//! | `2024-02-29` | date32 |
//! | `2024-02-29T12:30:00.5`, also with a space; all with a zone, or none | timestamp, in UTC or without a zone |
//! | nothing at all | null |
//! | everything else: `007`, `+1`, whole numbers of more than 64 bits, several of these kinds | utf8 |
//!
//! A type is found in all values of a column in all files, or in the first lines of each with `-i infer=N`, or is given with
//! `-i schema=FILE`. Quotes say nothing of a type, as in pyarrow. A value that does not fit is an error with its line. All
//! files of an input have the same columns in the same order. Lines end with `\n`, `\r\n` or `\r`. In a file of one column
//! an empty line is a null, as polars and DuckDB write it; in others it is skipped. A row with fewer or more fields than there
//! are columns is an error.
//!
//! Written are texts, in quotes where it takes them. What CSV has no form for is JSON (lists, structs, maps) or base64
//! (bytes), as a loss; times with a zone are in UTC. Of bytes in a schema `""` is none of them, as of texts.
//!
//! `arrow-csv` is not used: it does not tell an empty text from a null, nor on which line a field begins.
//!
//! Sources: RFC 4180; IANA's text/tab-separated-values; pyarrow.csv, for nulls, empty lines and types.
#![forbid(unsafe_code)]

mod probe;
mod read;
mod write;

mod dialect;
mod kind;
mod options;

use tensorferry_sdk::records::{RecordReader, RecordWriter};
use tensorferry_sdk::{Capabilities, Context, Description, Format, Options, Result, Score, Source};

/// Endings; the first names outputs.
const SUFFIXES: [&str; 2] = [".csv", TABS];
/// The ending of files whose fields have tabs between them.
const TABS: &str = ".tsv";

/// The format.
#[derive(Debug, Clone, Copy, Default)]
pub struct Csv;

impl Format for Csv {
    fn describe(&self) -> Description {
        let suffixes = tensorferry_row_text::with_suffixes(&SUFFIXES);
        Description::new("csv", "CSV and TSV")
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
    vec![Box::new(Csv)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
