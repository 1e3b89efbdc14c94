//! Fuzz targets for frames, messages and compressed streams of record readers, with the same
//! requirements as in [`fuzz`](crate::fuzz).

use std::sync::Arc;
use tensorferry_sdk::records::{Batches, RecordSet};
use tensorferry_sdk::{ByteSink, Format, Limits, MemoryContext, MemorySource, Options, Result, Side};

/// Reads, shows, indexes and probes `bytes` as a file. Reads the file both with and without
/// skipping damage. Returns whether the whole file could be read without skipping.
pub fn read_file(format: &dyn Format, bytes: &[u8]) -> bool {
    let source = MemorySource::file("data.tfrecord", bytes);
    let read = read(format, &source, &[]);
    read_to_end(format, &source, &[("on_error", "skip")]);
    let context = context();
    if let Ok(reader) = format.record_reader(&options(format, &[])) {
        let _ = reader.index(&source, &mut Vec::new(), &context);
    }
    let _ = format.probe(&source, &context);
    read
}

/// Reads `message` as the data of a record that follows a valid record, with each kind of decoding.
/// Returns whether any kind succeeded.
pub fn read_message(format: &dyn Format, message: &[u8]) -> bool {
    // The record has one feature "a" with the integers 1 and 2.
    let good = b"\x0a\x0e\x0a\x0c\x0a\x01a\x12\x07\x1a\x05\x0a\x03\x01\x02\x03";
    let source = MemorySource::file("data.tfrecord", [frame(good), frame(message)].concat());
    let mut is_read = false;
    for decode in ["example", "sequence", "auto"] {
        is_read |= read(format, &source, &[("decode", decode)]);
        let rows = read_to_end(format, &source, &[("decode", decode), ("on_error", "skip")]);
        assert!(rows.is_none_or(|rows| rows > 0), "a record before the damage is lost");
    }
    is_read
}

/// Reads `bytes` as a stream of this codec. Returns whether the whole stream could be read.
pub fn read_compressed(format: &dyn Format, codec: &str, bytes: &[u8]) -> bool {
    let source = MemorySource::file("data.tfrecord", bytes);
    read_to_end(format, &source, &[("compression", codec), ("on_error", "skip")]);
    read(format, &source, &[("compression", codec), ("decode", "raw")])
}

/// Returns the frame of a record.
pub fn frame(data: &[u8]) -> Vec<u8> {
    let len = (data.len() as u64).to_le_bytes();
    let masked = |bytes: &[u8]| crate::table::masked_crc(bytes).to_le_bytes();
    [&len[..], &masked(&len), data, &masked(data)].concat()
}

fn context() -> MemoryContext {
    let mut limits = Limits::default();
    limits.header_bytes = 1 << 20;
    limits.tensors = 4096;
    limits.columns = 512;
    limits.name_bytes = 4096;
    MemoryContext::new(limits)
}

fn options(format: &dyn Format, given: &[(&str, &str)]) -> Options {
    let given: Vec<_> = given.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    Options::check(&format.describe().options, Side::Reader, &given).unwrap_or_default()
}

fn read(format: &dyn Format, source: &MemorySource, given: &[(&str, &str)]) -> bool {
    read_to_end(format, source, given).is_some()
}

/// Returns the number of rows, or `None` if not all rows could be read.
fn read_to_end(format: &dyn Format, source: &MemorySource, given: &[(&str, &str)]) -> Option<usize> {
    let reader = format.record_reader(&options(format, given)).ok()?;
    let set = reader.open(Arc::new(source.clone()), &mut Vec::new(), &context()).ok()?;
    shown(&*set);
    let mut rows = 0;
    for split in 0..set.splits().len() {
        let batches = Batches { rows: 64, bytes: 1 << 16, ..Batches::default() };
        for batch in set.stream(split, &batches).ok()? {
            let batch = batch.ok()?;
            assert_eq!(batch.schema(), set.schema(), "a batch has a different schema");
            rows += batch.num_rows();
        }
    }
    let _ = (set.losses(&mut Vec::new()), set.skipped());
    Some(rows)
}

/// Shows every record, and checks that each line is JSON.
fn shown(set: &dyn RecordSet) {
    struct Lines;
    impl ByteSink for Lines {
        fn write(&mut self, bytes: &[u8]) -> Result<()> {
            assert!(serde_json::from_slice::<serde_json::Value>(bytes).is_ok(), "a line that is not JSON");
            Ok(())
        }
    }
    for split in 0..set.splits().len() {
        let _ = set.json(split, u64::MAX, &mut Lines);
    }
}
