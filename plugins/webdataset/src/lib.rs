//! WebDataset: tar files whose members are grouped into samples by name.
//!
//! ```text
//! a/0001.jpg   sample "a/0001", member "jpg"       a member: a header of 512 bytes, its bytes, zeros up to 512
//! a/0001.cls   the same sample, member "cls"       the end: two blocks of zeros, zeros up to 10,240
//! a/0002.jpg   the next sample
//! ```
//!
//! A key ends at the first dot behind the last slash; what follows is the member, in lower case. Files without a dot, those
//! that begin with one, `__NAME__` and all that is no plain file belong to no sample. A file that begins with a dot has its folder
//! as the key if that has no dot, as in `webdataset`. What macOS adds (`._*`, `.DS_Store`, `__MACOSX`) is skipped. A tar that
//! holds a checkpoint or tables is refused, unless `-i weights=samples` is passed. Only neighbours are grouped: a key that
//! returns later is another sample, which is said as a loss. A missing member is a null. An archive without its end, which
//! `tarfile` and `webdataset` read to the last member, may be one that was cut off there: a loss says so.
//!
//! | Member | Column |
//! |---|---|
//! | any | bytes, as they are |
//! | `txt`, `text`, `transcript`, `json`, `jsn`, with `-i members=typed` | text; JSON is not parsed |
//! | `cls`, `cls2`, `index`, `inx`, `id`, with `-i members=typed` | int64, as `webdataset` decodes them; zeros before a number are lost, and said to be |
//! | none | null |
//!
//! Keys are the column `__key__`, or with `-i key=NAME` another one.
//!
//! | Column | Is written as |
//! |---|---|
//! | bytes, texts | a member of that name, as they are |
//! | numbers, truths | text: `12`, `0.5`, `true` |
//! | lists, structs, maps | JSON, as Python's `json` reads it |
//! | a null | no member; a row of nulls alone is left out, as a loss |
//!
//! A row needs a key: `__key__`, or `-o key=COLUMN`. Running numbers are not made up: pieces are encoded before it is known
//! where they lie.
//!
//! Sources: `webdataset` (tariterators.py, writer.py), POSIX.1-2017 pax, GNU tar's manual.
#![forbid(unsafe_code)]

mod probe;
mod read;
mod write;

mod checkpoint;
mod input;
mod options;
mod tar;

use tensorferry_sdk::records::{RecordReader, RecordWriter};
use tensorferry_sdk::{Capabilities, Context, Description, Format, Options, Result, Score, Source};

/// Endings; the first names outputs.
const SUFFIXES: [&str; 4] = [".tar", ".tar.gz", ".tgz", ".tar.zst"];
/// The column of keys.
const KEY: &str = "__key__";

/// The format.
#[derive(Debug, Clone, Copy, Default)]
pub struct WebDataset;

impl Format for WebDataset {
    fn describe(&self) -> Description {
        Description::new("webdataset", "WebDataset")
            .suffixes(SUFFIXES)
            .members(SUFFIXES.map(|suffix| format!("*{suffix}")))
            .capabilities(Capabilities::READ_RECORDS | Capabilities::WRITE_RECORDS)
            .options(options::declared())
            .output_revision(1)
    }

    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        probe::score(source, context.limits()).map(Some)
    }

    fn record_reader(&self, options: &Options) -> Result<Box<dyn RecordReader>> {
        Ok(Box::new(read::Reader::new(options)?))
    }

    fn record_writer(&self, options: &Options) -> Result<Box<dyn RecordWriter>> {
        Ok(Box::new(write::Writer::new(options)?))
    }
}

/// The formats of this crate, for a program that links it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(WebDataset)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
