//! MDS, the format of MosaicML Streaming: a folder of shards with an `index.json` that describes
//! them.
//!
//! ```text
//! index.json   {"version": 2, "shards": [{"format": "mds", "samples": n, "column_names": [..], "column_encodings": [..],
//!              "column_sizes": [8, null, ..], "compression": null, "raw_data": {"basename", "bytes", "hashes"}, ..}]}
//! shard        u32 n | u32 offset of each sample and of the end, from the file's start | configuration, JSON | samples
//! sample       u32 size of each column without a fixed one, in column order | all values in column order
//! ```
//!
//! Numbers are little-endian, and columns are sorted by name. A compressed shard is compressed as a
//! whole. `encoding.rs` lists the encodings.
//!
//! | Encoding | Is read as |
//! |---|---|
//! | `str`, `json`, `str_int`, `str_float`, `str_decimal` | strings, unchanged |
//! | `int`, `int8` .. `float64` | numbers |
//! | `bytes`, `jpeg`, `png`, `pil` and lists of these | bytes, unchanged |
//! | `ndarray:T:2,3` | lists of these lengths |
//! | `ndarray:T`, `ndarray` | lists with the depth of the column's arrays; if the depth or type varies, a struct of `shape` and `values`, and of `dtype` if the type varies |
//! | `pkl` | bytes of the pickle, which is never opened; this is reported as a loss |
//!
//! If a column's type does not determine the encoding, the reader stores the encoding in the
//! field's metadata under the key `ferry.mds.encoding`. The writer uses the encoding in the
//! metadata.
//!
//! | Column | Is written as |
//! |---|---|
//! | numbers, strings, bytes | `int8` .. `float64`, int64 as `int`; `str`, `bytes`; booleans as `uint8` |
//! | decimals | `str_decimal`; dates and times as `str` |
//! | lists of numbers | `ndarray:T`, which has no empty arrays; with `-o lists=json` as `json` |
//! | lists of a fixed length | `ndarray:T:2,3` |
//! | other lists, structs, maps | `json` |
//!
//! MDS does not support nulls. By default, nulls become zeros, NaN and empty values, which is
//! reported as a loss. `-o nulls` sets a different method.
//!
//! Source: `mosaicml-streaming` 0.13 (`format/mds`, `compression.py`, `hashing.py`).
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

/// File name of the index.
const INDEX: &str = "index.json";
/// Key of the encoding in a field's metadata. It is set if the column's type does not determine the
/// encoding.
const ENCODING: &str = "ferry.mds.encoding";

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

/// Returns the formats of this crate, for programs that link it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(Mds)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
