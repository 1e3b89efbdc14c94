//! Tests rows across the boundary inside one process. Scans and plans must arrive unchanged, and
//! faults of a plugin must be errors that name the plugin.
#![cfg(feature = "arrow-60")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Mutex, Once, PoisonError};
use tensorferry_abi::offered_by;
use tensorferry_sdk::arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchIterator};
use tensorferry_sdk::arrow_schema::{DataType, Field, Schema, SchemaRef};
use tensorferry_sdk::export::{Exported, Root};
use tensorferry_sdk::memory::records;
use tensorferry_sdk::mirror::RemoteFormat;
use tensorferry_sdk::records::{
    BatchStream, Batches, Comparator, ComparedValue, Comparison, PlacedPiece, RecordPlan, RecordReader,
    RecordSet, RecordWriter, Roll, ScanRequest, Split, WrittenFile, from_stream,
};
use tensorferry_sdk::{
    ByteSink, Capabilities, Context, Description, Error, ErrorKind, Format, LossSink, MemoryContext,
    MemorySource, OptionKind, OptionSpec, Options, Result, Source, Target,
};

/// The scan that was requested last.
static ASKED: Mutex<Option<ScanRequest>> = Mutex::new(None);

/// A format that panics on request. The rows of each input are the numbers 0 to 9.
struct Lent;

impl Exported for Lent {
    fn formats() -> Result<Vec<Box<dyn Format>>> {
        Ok(vec![Box::new(Lent)])
    }
}

impl Format for Lent {
    fn describe(&self) -> Description {
        Description::new("lent-rows", "Lent rows")
            .capabilities(Capabilities::READ_RECORDS | Capabilities::WRITE_RECORDS)
            .options([
                OptionSpec::reader("mode", OptionKind::Text, None, "what to do"),
                OptionSpec::writer("mode", OptionKind::Text, None, "what to do"),
            ])
    }

    fn record_reader(&self, options: &Options) -> Result<Box<dyn RecordReader>> {
        Ok(Box::new(Doing(options.text("mode").unwrap_or_default().to_owned())))
    }

    fn record_writer(&self, options: &Options) -> Result<Box<dyn RecordWriter>> {
        Ok(Box::new(Doing(options.text("mode").unwrap_or_default().to_owned())))
    }
}

#[derive(Clone)]
struct Doing(String);

impl Doing {
    fn panics_in(&self, entry: &str) {
        assert!(self.0 != entry, "on request");
    }
}

fn schema() -> SchemaRef {
    let inner = DataType::Struct(vec![Field::new("x", DataType::Int64, true)].into());
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true), Field::new("s", inner, true)]))
}

fn rows() -> RecordBatch {
    let numbers: ArrayRef = Arc::new((0..10).collect::<Int64Array>());
    let inner = tensorferry_sdk::arrow_array::StructArray::from(vec![(
        Arc::new(Field::new("x", DataType::Int64, true)),
        numbers.clone(),
    )]);
    RecordBatch::try_new(schema(), vec![numbers, Arc::new(inner)]).unwrap()
}

impl RecordReader for Doing {
    fn open(
        &self,
        _source: Arc<dyn Source>,
        _losses: &mut dyn LossSink,
        _context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>> {
        let split = Split { file: "in".to_owned(), records: Some(10), ..Split::default() };
        Ok(Box::new(Set(self.clone(), [split])))
    }
}

struct Set(Doing, [Split; 1]);

impl RecordSet for Set {
    fn schema(&self) -> SchemaRef {
        schema()
    }

    fn splits(&self) -> &[Split] {
        &self.1
    }

    fn stream(&self, _split: usize, batches: &Batches) -> Result<BatchStream> {
        let columns = batches.columns.clone().unwrap_or_else(|| vec![0, 1]);
        let batch = rows().project(&columns).map_err(|e| Error::plugin(e.to_string()))?;
        let schema = batch.schema();
        let doing = self.0.clone();
        let batches = std::iter::once_with(move || {
            doing.panics_in("stream");
            Ok(batch)
        });
        Ok(Box::new(RecordBatchIterator::new(batches, schema)))
    }

    fn scan(&self, split: usize, scan: &ScanRequest) -> Result<BatchStream> {
        self.0.panics_in("scan");
        *ASKED.lock().unwrap_or_else(PoisonError::into_inner) = Some(scan.clone());
        let whole = ScanRequest { predicate: Vec::new(), ..scan.clone() };
        tensorferry_sdk::records::narrowed(self.stream(split, &scan.batches())?, &schema(), &whole)
    }
}

impl RecordWriter for Doing {
    fn plan(
        &self,
        _schema: &SchemaRef,
        _rows: Option<u64>,
        _target: &Target,
        _losses: &mut dyn LossSink,
        _context: &dyn Context,
    ) -> Result<Box<dyn RecordPlan>> {
        Ok(Box::new(Plan(self.clone(), ["list".to_owned()])))
    }
}

struct Plan(Doing, [String; 1]);

impl RecordPlan for Plan {
    fn files(&self) -> &[String] {
        &[]
    }

    fn roll(&self) -> Option<Roll> {
        Some(Roll::Bytes(7))
    }

    fn name(&self, file: usize, count: usize) -> Result<String> {
        self.0.panics_in("name");
        Ok(format!("{file}-of-{count}"))
    }

    fn supersedes(&self) -> &[String] {
        &self.1
    }

    fn encode(
        &self,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        _losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>> {
        self.0.panics_in("encode");
        output.write(&vec![b'r'; batches.iter().map(RecordBatch::num_rows).sum()])?;
        Ok(vec![5])
    }

    fn finish(&self, _file: usize, _pieces: &[PlacedPiece], output: &mut dyn ByteSink) -> Result<()> {
        self.0.panics_in("finish");
        output.write(b".")
    }

    fn sealed(&self) -> &[String] {
        &self.1
    }

    fn seal(&self, sealed: usize, files: &[WrittenFile], output: &mut dyn ByteSink) -> Result<()> {
        self.0.panics_in("seal");
        files.iter().try_for_each(|file| output.write(format!("{sealed} {file:?}\n").as_bytes()))
    }
}

/// Exports and wraps the format, and restores the panic hook that a library silences.
fn remote() -> RemoteFormat {
    static LOUD: Once = Once::new();
    let formats = offered_by::<Root<Lent>>().unwrap();
    LOUD.call_once(|| drop(std::panic::take_hook()));
    RemoteFormat::new("lender", formats.into_iter().next().unwrap()).unwrap()
}

fn mode(doing: &str) -> Vec<(String, String)> {
    vec![("mode".to_owned(), doing.to_owned())]
}

fn open(doing: &str) -> records::OpenedRecords {
    let source = Arc::new(MemorySource::file("in", *b"rows"));
    records::open(&remote(), &mode(doing), source, &MemoryContext::default()).unwrap()
}

fn write(doing: &str) -> Result<records::RecordOutput> {
    let pieces = [vec![rows().slice(0, 4)], vec![rows().slice(4, 6)]];
    let context = MemoryContext::default();
    records::write(&remote(), &mode(doing), &schema(), &pieces, &Target::Folder, &context)
}

/// Asserts that the error reports a requested panic in this entry point.
fn is_panic(error: &Error, entry: &str) {
    assert_eq!(error.kind(), ErrorKind::Plugin);
    let start = format!("plugin lender: panicked in {entry}: on request");
    assert!(error.message().starts_with(&start), "{error}");
}

#[test]
fn a_scan_crosses_as_it_was_asked_and_a_stream_outlives_its_set() {
    let comparison = |comparator, values| Comparison { column: vec![1, 0], comparator, values };
    let scan = ScanRequest {
        columns: Some(vec![vec![0], vec![1, 0]]),
        first_row: 3,
        limit: Some(4),
        predicate: vec![
            comparison(
                Comparator::In,
                vec![ComparedValue::Int(-1), ComparedValue::Int(i128::from(u64::MAX))],
            ),
            comparison(Comparator::IsNotNull, vec![]),
            comparison(Comparator::Less, vec![ComparedValue::Float(0.5)]),
            comparison(Comparator::Equal, vec![ComparedValue::Bytes(b"a\xff".to_vec())]),
            comparison(Comparator::Unequal, vec![ComparedValue::Bool(true)]),
        ],
        rows: 2,
        bytes: 77,
    };
    let set = open("");
    let stream = set.scan(0, &scan).unwrap();
    assert_eq!(ASKED.lock().unwrap_or_else(PoisonError::into_inner).take(), Some(scan));
    drop(set);
    let found: Vec<RecordBatch> =
        stream.map(|batch| batch.map_err(from_stream)).collect::<Result<_>>().unwrap();
    assert_eq!(found, [rows().slice(3, 4)]);
}

#[test]
fn a_plan_that_rolls_crosses_and_its_files_come_to_the_seal() {
    let output = write("").unwrap();
    let files: Vec<(&str, &[u8])> = output.files.iter().map(|(name, bytes)| (&**name, &bytes[..])).collect();
    assert_eq!(files, [("0-of-2", &b"rrrr."[..]), ("1-of-2", b"rrrrrr.")]);
    let file = |name: &str, rows| WrittenFile {
        name: name.to_owned(),
        bytes: rows + 1,
        pieces: vec![PlacedPiece { offset: 0, len: rows, rows, note: vec![5] }],
    };
    let list = format!("0 {:?}\n0 {:?}\n", file("0-of-2", 4), file("1-of-2", 6));
    assert_eq!(String::from_utf8(output.sealed["list"].clone()).unwrap(), list);
}

#[test]
fn a_panic_in_any_entry_of_rows_names_it() {
    is_panic(&open("scan").scan(0, &ScanRequest::default()).err().unwrap(), "RecordSet.scan");
    let mut stream = open("stream").scan(0, &ScanRequest::default()).unwrap();
    is_panic(&from_stream(stream.next().unwrap().unwrap_err()), "RecordSet.scan");
    assert!(stream.next().is_none());
    for entry in ["name", "encode", "finish", "seal"] {
        is_panic(&write(entry).unwrap_err(), &format!("RecordPlan.{entry}"));
    }
}

#[test]
fn a_path_that_leads_nowhere_is_the_plugins_error() {
    for path in [vec![2], vec![0, 0], vec![1, 1], vec![usize::from(u16::MAX)]] {
        let scan = ScanRequest { columns: Some(vec![path.clone()]), ..ScanRequest::default() };
        let read = open("")
            .scan(0, &scan)
            .and_then(|stream| stream.map(|batch| batch.map_err(from_stream)).collect::<Result<Vec<_>>>());
        assert_eq!(read.unwrap_err().kind(), ErrorKind::Plugin, "{path:?}");
    }
}
