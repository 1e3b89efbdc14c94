//! MDS, the format of MosaicML Streaming: a folder of shards and `index.json`, which says what they are.
//!
//! ```text
//! index.json   {"version": 2, "shards": [{"format": "mds", "samples": n, "column_names": [..], "column_encodings": [..],
//!              "column_sizes": [8, null, ..], "compression": null, "raw_data": {"basename", "bytes", "hashes"}, ..}]}
//! shard        u32 n | u32 offset of each sample and of the end, from the file's start | configuration, JSON | samples
//! sample       u32 size of each column without a fixed one, in column order | all values in column order
//! ```
//!
//! Numbers are little-endian, and columns lie in the order of their names. A compressed shard is compressed whole. The
//! table of encodings is in `encoding.rs`.
//!
//! | Encoding | Is read as |
//! |---|---|
//! | `str`, `json`, `str_int`, `str_float`, `str_decimal` | text, as it is |
//! | `int`, `int8` .. `float64` | numbers |
//! | `bytes`, `jpeg`, `png`, `pil` and lists of these | bytes, as they are |
//! | `ndarray:T:2,3` | lists of that length |
//! | `ndarray:T`, `ndarray` | lists as deep as every array of the column; else the parts `shape` and `values`, and `dtype` |
//! | `pkl` | bytes that nobody opens, as a loss |
//!
//! What the type does not say of the encoding stays in the field's metadata under `ferry.mds.encoding`, by which such a column is
//! written as it was.
//!
//! | Column | Is written as |
//! |---|---|
//! | numbers, texts, bytes | `int8` .. `float64`, of int64 `int`; `str`, `bytes`; truths as `uint8` |
//! | decimals | `str_decimal`; dates and times as `str` |
//! | lists of numbers | `ndarray:T`, which has no empty arrays; with `-o lists=json` as `json` |
//! | lists of a fixed length | `ndarray:T:2,3` |
//! | other lists, structs, maps | `json` |
//!
//! MDS has no nulls: zeros, NaN and empty values are written for them as a loss, unless `-o nulls` says otherwise.
//!
//! Sources: `mosaicml-streaming` 0.13 (`format/mds`, `compression.py`, `hashing.py`).
#![forbid(unsafe_code)]

mod probe;
mod read;
mod write;

mod codec;
mod encoding;
mod hash;
mod index;
mod numbers;
mod options;

use tensorferry_sdk::records::{RecordReader, RecordWriter};
use tensorferry_sdk::{Capabilities, Context, Description, Format, Options, Result, Score, Source};

/// What every set has.
const INDEX: &str = "index.json";
/// The key of a field's metadata that says how the column is encoded, where its type does not.
const ENCODING: &str = "ferry.mds.encoding";

/// The format.
#[derive(Debug, Clone, Copy, Default)]
pub struct Mds;

impl Format for Mds {
    fn describe(&self) -> Description {
        Description::new("mds", "MosaicML Streaming (MDS)")
            .members([INDEX, "*.mds"])
            .capabilities(Capabilities::READ_RECORDS | Capabilities::WRITE_RECORDS)
            .options(options::declared())
            .output_revision(1)
    }

    fn probe(&self, source: &dyn Source, _context: &dyn Context) -> Result<Option<Score>> {
        probe::score(source).map(Some)
    }

    fn record_reader(&self, options: &Options) -> Result<Box<dyn RecordReader>> {
        Ok(Box::new(read::Reader { is_verified: options::is_verified(options)? }))
    }

    fn record_writer(&self, options: &Options) -> Result<Box<dyn RecordWriter>> {
        Ok(Box::new(write::Writer(options::WriteOptions::new(options)?)))
    }
}

/// The formats of this crate, for a program that links it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Mds)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
