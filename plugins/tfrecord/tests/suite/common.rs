//! Helpers that build inputs from bytes, and that read and write records in memory.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use tensorferry_proto::feature::Kind;
use tensorferry_proto::{
    BytesList, Example, Feature, FeatureList, FeatureLists, Features, FloatList, Int64List, Message,
    SequenceExample,
};
use tensorferry_sdk::memory::pairs;
use tensorferry_sdk::memory::records::{self, OpenedRecords};
use tensorferry_sdk::records::{Batches, RecordSet, from_stream};
use tensorferry_sdk::{
    Context, Entry, Error, Format, Level, Limits, Loss, MemoryContext, MemorySource, Options, Purpose,
    Result, Side, Source, Target,
};
use tensorferry_tfrecord::TfRecord;

/// An in-memory context with several threads.
#[derive(Default)]
pub(crate) struct Threaded {
    pub(crate) inner: MemoryContext,
    pub(crate) threads: usize,
}

impl Context for Threaded {
    fn limits(&self) -> &Limits {
        self.inner.limits()
    }
    fn is_cancelled(&self) -> bool {
        false
    }
    fn log(&self, level: Level, message: &str) {
        self.inner.log(level, message);
    }
    fn progress(&self, done: u64, total: u64) {
        self.inner.progress(done, total);
    }
    fn open(&self, path: &str) -> Result<Arc<dyn Source>> {
        self.inner.open(path)
    }
    fn purpose(&self) -> Purpose {
        self.inner.purpose
    }
    fn threads(&self) -> usize {
        self.threads
    }
}

/// Returns a context with this number of threads.
pub(crate) fn threads(threads: usize) -> Threaded {
    Threaded { inner: MemoryContext::default(), threads }
}

pub(crate) fn options(side: Side, given: &[(&str, &str)]) -> Options {
    Options::check(&TfRecord.describe().options, side, &pairs(given)).unwrap()
}

/// Returns a source with files in memory.
pub(crate) fn source(entry: Entry, files: &[(&str, Vec<u8>)]) -> MemorySource {
    MemorySource::new(entry, files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone())).collect())
}

pub(crate) fn open(
    source: MemorySource,
    given: &[(&str, &str)],
    context: &dyn Context,
) -> Result<OpenedRecords> {
    records::open(&TfRecord, &pairs(given), Arc::new(source), context)
}

pub(crate) fn open_file(bytes: &[u8], given: &[(&str, &str)]) -> Result<OpenedRecords> {
    open(MemorySource::file("f.tfrecord", bytes), given, &threads(2))
}

/// Opens a source for displaying its records.
pub(crate) fn open_lines(source: MemorySource, given: &[(&str, &str)]) -> Result<OpenedRecords> {
    let mut context = threads(1);
    context.inner.purpose = Purpose::LINES;
    open(source, given, &context)
}

/// Returns the error from opening or reading a source.
pub(crate) fn refused(source: MemorySource, given: &[(&str, &str)], context: &dyn Context) -> Error {
    match open(source, given, context) {
        Err(error) => error,
        Ok(set) => rows(&*set, &Batches::default()).1.expect("reading must fail"),
    }
}

/// Returns all rows before the first error, and the error, if any.
pub(crate) fn rows(set: &dyn RecordSet, batches: &Batches) -> (Vec<RecordBatch>, Option<Error>) {
    let mut all = Vec::new();
    for split in 0..set.splits().len() {
        let stream = match set.stream(split, batches) {
            Ok(stream) => stream,
            Err(error) => return (all, Some(error)),
        };
        for batch in stream {
            match batch {
                Ok(batch) => all.push(batch),
                Err(error) => return (all, Some(from_stream(error))),
            }
        }
    }
    (all, None)
}

/// Returns all rows, which must be readable.
pub(crate) fn all_rows(set: &dyn RecordSet) -> Vec<RecordBatch> {
    let (rows, error) = rows(set, &Batches::default());
    assert!(error.is_none(), "{error:?}");
    rows
}

pub(crate) fn count_rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

/// Returns the integers of a column.
pub(crate) fn column_of_ints(batches: &[RecordBatch], name: &str) -> Vec<i64> {
    let values = |batch: &RecordBatch| {
        let column = batch.column_by_name(name).unwrap();
        column.as_primitive::<Int64Type>().values().to_vec()
    };
    batches.iter().flat_map(values).collect()
}

/// Returns every record before the first error as JSON, and the error, if any.
pub(crate) fn lines(set: &dyn RecordSet) -> (Vec<serde_json::Value>, Option<Error>) {
    struct Lines(Vec<serde_json::Value>);
    impl tensorferry_sdk::ByteSink for Lines {
        fn write(&mut self, bytes: &[u8]) -> Result<()> {
            self.0.push(serde_json::from_slice(bytes).unwrap());
            Ok(())
        }
    }
    let mut lines = Lines(Vec::new());
    for split in 0..set.splits().len() {
        if let Err(error) = set.json(split, u64::MAX, &mut lines) {
            return (lines.0, Some(error));
        }
    }
    (lines.0, None)
}

/// The output of a writer.
pub(crate) struct Output {
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) losses: Vec<Loss>,
}

impl Output {
    /// Returns a source with the written file, or with the folder if the writer created several
    /// files.
    pub(crate) fn source(&self) -> MemorySource {
        let entry = match self.files.keys().next() {
            Some(only) if self.files.len() == 1 => Entry::File(only.clone()),
            _ => Entry::Folder,
        };
        MemorySource::new(entry, self.files.clone())
    }
}

/// Writes each batch as a piece. The pieces are assigned to the files in round-robin order.
pub(crate) fn write(
    batches: &[RecordBatch],
    given: &[(&str, &str)],
    context: &dyn Context,
) -> Result<Output> {
    let pieces: Vec<_> = batches.iter().map(|batch| vec![batch.clone()]).collect();
    let target = Target::File("f.tfrecord".to_owned());
    let output = records::write(&TfRecord, &pairs(given), &batches[0].schema(), &pieces, &target, context)?;
    Ok(Output { files: output.files, losses: output.losses })
}

/// Returns the masked checksum of a frame. This implementation is independent of the crate.
pub(crate) fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Returns the frames of records.
pub(crate) fn frames<R: AsRef<[u8]>>(records: &[R]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        let record = record.as_ref();
        let len = (record.len() as u64).to_le_bytes();
        bytes.extend(len);
        bytes.extend(masked(&len).to_le_bytes());
        bytes.extend(record);
        bytes.extend(masked(record).to_le_bytes());
    }
    bytes
}

pub(crate) fn ints(values: &[i64]) -> Feature {
    Feature { kind: Some(Kind::Int64List(Int64List { value: values.to_vec() })) }
}

pub(crate) fn floats(values: &[f32]) -> Feature {
    Feature { kind: Some(Kind::FloatList(FloatList { value: values.to_vec() })) }
}

pub(crate) fn bytes(values: &[&[u8]]) -> Feature {
    let value = values.iter().map(|value| value.to_vec()).collect();
    Feature { kind: Some(Kind::BytesList(BytesList { value })) }
}

pub(crate) fn example(features: &[(&str, Feature)]) -> Example {
    let feature = features.iter().map(|(name, feature)| ((*name).to_owned(), feature.clone())).collect();
    Example { features: Some(Features { feature }) }
}

pub(crate) fn sequence(context: &[(&str, Feature)], lists: &[(&str, Vec<Feature>)]) -> SequenceExample {
    let list = |(name, feature): &(&str, Vec<Feature>)| {
        ((*name).to_owned(), FeatureList { feature: feature.clone() })
    };
    SequenceExample {
        context: example(context).features,
        feature_lists: Some(FeatureLists { feature_list: lists.iter().map(list).collect() }),
    }
}

/// Returns a file of messages.
pub(crate) fn file<M: Message>(messages: &[M]) -> Vec<u8> {
    let records: Vec<Vec<u8>> = messages.iter().map(Message::encode_to_vec).collect();
    frames(&records)
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}
