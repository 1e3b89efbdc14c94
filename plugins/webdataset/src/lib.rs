//! Reads and writes WebDatasets: tar files whose members are grouped into samples by name.
//!
//! ```text
//! a/0001.jpg   sample "a/0001", member "jpg"       a member: a header of 512 bytes, the content, zeros up to a multiple of 512
//! a/0001.cls   the same sample, member "cls"       the end: two blocks of zeros, zeros up to a multiple of 10,240
//! a/0002.jpg   the next sample
//! ```
//!
//! The key of a sample is the path up to the first dot after the last slash. The rest of the path,
//! in lower case, is the name of the member. Some entries are not part of any sample: files without
//! a dot, paths below `__NAME__`, and entries that are not plain files. As in `webdataset`, the key
//! of a file whose name starts with a dot is its folder. If the name of that folder contains a dot,
//! the file is not part of any sample. Files that macOS adds (`._*`, `.DS_Store`, `__MACOSX`) are
//! skipped. ferry rejects a tar that contains a checkpoint or tables, unless `-i weights=samples`
//! is passed. Only adjacent members are grouped. If the same key occurs again later, those members
//! become a separate sample, and ferry reports a loss. A missing member is read as a null. If an
//! archive has no end blocks, `tarfile` and `webdataset` read it up to the last member. Such an
//! archive may be truncated, so ferry reports a loss.
//!
//! | Member | Column |
//! |---|---|
//! | any | unchanged bytes |
//! | `txt`, `text`, `transcript`, `json`, `jsn`, with `-i members=typed` | text (JSON is not parsed) |
//! | `cls`, `cls2`, `index`, `inx`, `id`, with `-i members=typed` | int64, as in `webdataset`; ferry reports the loss of leading zeros |
//! | missing | null |
//!
//! The column `__key__` contains the keys. `-i key=NAME` sets a different name for this column.
//!
//! | Column | Written as |
//! |---|---|
//! | bytes, text | a member with the name of the column, unchanged |
//! | numbers, booleans | text, such as `12`, `0.5` or `true` |
//! | lists, structs, maps | JSON in a form that Python's `json` module can read |
//! | null | no member; a row of only nulls is dropped and reported as a loss |
//!
//! Each row needs a key, from the column `__key__` or from the column that `-o key=COLUMN` names.
//! The writer cannot generate keys from row numbers, because it encodes pieces before their
//! positions are known.
//!
//! Sources: `webdataset` (tariterators.py, writer.py), POSIX.1-2017 pax, the GNU tar manual.
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

/// File extensions of this format. Output files get the first one.
const SUFFIXES: [&str; 4] = [".tar", ".tar.gz", ".tgz", ".tar.zst"];
/// The default name of the key column.
const KEY: &str = "__key__";

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

/// Returns the formats of this crate, for programs that link it.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(WebDataset)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
