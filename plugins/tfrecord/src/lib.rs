//! Reads and writes TFRecord files of Examples and SequenceExamples, without TensorFlow.
//!
//! | Task | Modules |
//! |---|---|
//! | find the files of an input and their compression | `files/`, `codec.rs`, `bytes/` |
//! | read records: frames, faults, multi-threaded scans, indexes | `frame/`, `policy.rs`, `scan/`, `index.rs` |
//! | parse messages: features and their JSON form | `message.rs`, `keys.rs`, `json.rs` |
//! | build one schema for all records | `profile.rs`, `schema_file.rs`, `columns/` |
//! | read and write datasets | `read/`, `write/` |
#![forbid(unsafe_code)]

mod options;
mod probe;
mod read;
mod write;

mod bytes;
mod codec;
mod columns;
mod files;
mod frame;
mod index;
mod json;
mod keys;
mod message;
mod policy;
mod profile;
mod scan;
mod schema_file;

use tensorferry_sdk::records::{RecordReader, RecordWriter};
use tensorferry_sdk::{Capabilities, Context, Description, Format, Options, Result, Score, Source};

#[derive(Debug, Clone, Copy, Default)]
pub struct TfRecord;

impl Format for TfRecord {
    fn describe(&self) -> Description {
        let mut suffixes: Vec<String> = files::SUFFIXES.map(str::to_owned).into();
        suffixes.extend(files::SUFFIXES.map(|suffix| format!("{suffix}.gz")));
        Description::new("tfrecord", "TFRecord")
            .suffixes(suffixes)
            .members(["*.tfrecord*", "*-?????-of-?????"])
            .capabilities(Capabilities::READ_RECORDS | Capabilities::WRITE_RECORDS | Capabilities::INDEX)
            .options(options::declared())
            .output_revision(1)
    }

    fn probe(&self, source: &dyn Source, context: &dyn Context) -> Result<Option<Score>> {
        probe::score(source, context).map(Some)
    }

    fn record_reader(&self, options: &Options) -> Result<Box<dyn RecordReader>> {
        Ok(Box::new(read::TfRecordReader { options: options::ReadOptions::new(options)? }))
    }

    fn record_writer(&self, options: &Options) -> Result<Box<dyn RecordWriter>> {
        Ok(Box::new(write::TfRecordWriter { options: options::WriteOptions::new(options)? }))
    }
}

/// Returns the formats of this crate, for programs that link the crate.
#[must_use]
pub fn formats() -> Vec<Box<dyn Format>> {
    vec![Box::new(TfRecord)]
}

#[cfg(feature = "plugin")]
tensorferry_sdk::export_plugin!(try || Ok(formats()));
