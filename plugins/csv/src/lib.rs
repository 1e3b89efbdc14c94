//! CSV and TSV with typed columns: one line per row.
//!
//! ```text
//! id,name,score\n          the names of the columns, unless `header=false`
//! 1,"a, ""quoted""",0.5\r\n    a quoted field may contain the delimiter, line ends and doubled quotes
//! 2,,\n                    an empty field is a null; "" in quotes is an empty string
//! ```
//!
//! | Values of a column | Its type |
//! |---|---|
//! | `true`, `false`, also `True`, `TRUE`, ... | bool |
//! | integers | int64, or uint64 if only that fits all |
//! | numbers with a point or an exponent, also mixed with integers; `NaN`, `inf`, `Infinity` in any case, with or without a sign | float64 |
//! | `2024-02-29` | date32 |
//! | `2024-02-29T12:30:00.5`, also with a space; all with a zone, or none | timestamp, in UTC or without a zone |
//! | only nulls | null |
//! | any other values: `007`, `+1`, integers of more than 64 bits, several of these kinds | utf8 |
//!
//! The type of a column is inferred from its values in all files, or with `-i infer=N` from the
//! first N rows of each file. With `-i schema=FILE`, the schema file sets the types instead. As in
//! pyarrow, quotes do not affect the inferred type. If a value does not fit the type, the error
//! names the line. All files of an input must have the same columns in the same order. Lines end
//! with `\n`, `\r\n` or `\r`. In a file with a single column, an empty line is a null, as in files
//! from polars and DuckDB. In other files, empty lines are skipped. A row whose number of fields
//! differs from the number of columns is an error.
//!
//! The writer quotes strings only where necessary. Lists, structs and maps are written as JSON, and
//! bytes as base64, which is reported as a loss. Times with a zone are written in UTC. If a schema
//! file sets the type of a column to binary, `""` is an empty value, as in a string column.
//!
//! This crate does not use `arrow-csv`, which does not distinguish an empty string from a null, and
//! does not report the line of a field.
//!
//! Sources: RFC 4180; IANA's text/tab-separated-values; pyarrow.csv, for nulls, empty lines and
//! types.
#![forbid(unsafe_code)]

mod probe;
mod read;
mod write;

mod dialect;
mod kind;
mod moment;
mod number;
mod options;

use tensorferry_sdk::records::{RecordReader, RecordWriter};
use tensorferry_sdk::{Capabilities, Context, Description, Format, Options, Result, Score, Source};

/// File name suffixes. The first one is the default for output files.
const SUFFIXES: [&str; 2] = [".csv", TABS];
/// Suffix of tab-separated files.
const TABS: &str = ".tsv";

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

/// Returns the formats of this crate, for programs that link it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Csv)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
