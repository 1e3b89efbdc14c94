//! Tests a plugin that panics in each entry point of each table, and in the destructor of each
//! object. The list of entry points is read from the layout of the boundary. A slot that is added
//! later must therefore also be tested.
#![cfg(feature = "arrow-60")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use tensorferry_abi::offered_by;
use tensorferry_sdk::arrow_array::{ArrayRef, Int64Array, RecordBatch, RecordBatchReader};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use tensorferry_sdk::export::{Exported, Root};
use tensorferry_sdk::memory::{self, MemoryView, records};
use tensorferry_sdk::mirror::RemoteFormat;
use tensorferry_sdk::records::{
    BatchStream, Batches, Group, IndexTotals, PlacedPiece, RecordPlan, RecordReader, RecordSet, RecordWriter,
    Roll, ScanRequest, SkippedRecord, Split, WrittenFile, from_stream,
};
use tensorferry_sdk::{
    ByteSink, Capabilities, CatalogSink, CatalogView, Context, Description, Digests, Dtype, Encoded,
    EncodedId, Error, ErrorKind, Format, LayoutSink, LossSink, MemoryContext, MemorySource, Options,
    OutputId, Result, Role, Score, SealSink, Source, Storage, Target, TensorDecoder, TensorId, TensorPlan,
    TensorReader, TensorWriter,
};

/// The kinds of objects that a plugin implements.
const OBJECTS: [&str; 9] = [
    "Format",
    "TensorReader",
    "TensorDecoder",
    "TensorWriter",
    "TensorPlan",
    "RecordReader",
    "RecordSet",
    "RecordWriter",
    "RecordPlan",
];

/// The entry point in which the plugin panics.
static TRAP: Mutex<&'static str> = Mutex::new("");

fn trap(entry: &str) {
    let there = *TRAP.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(there != entry, "on request");
}

/// Panics when it is dropped, if this entry point is the trap.
struct Dropped(&'static str);

impl Drop for Dropped {
    fn drop(&mut self) {
        trap(self.0);
    }
}

struct Trap;

impl Exported for Trap {
    fn formats() -> Result<Vec<Box<dyn Format>>> {
        trap("init");
        Ok(vec![Box::new(TrapFormat(Dropped("Format.drop")))])
    }
}

struct TrapFormat(#[expect(dead_code, reason = "for its drop")] Dropped);

impl Format for TrapFormat {
    fn describe(&self) -> Description {
        trap("Format.describe");
        let both = Capabilities::READ | Capabilities::WRITE;
        let rows = Capabilities::READ_RECORDS | Capabilities::WRITE_RECORDS | Capabilities::INDEX;
        Description::new("trap", "Traps").capabilities(both | rows)
    }

    fn probe(&self, _source: &dyn Source, _context: &dyn Context) -> Result<Option<Score>> {
        trap("Format.probe");
        Ok(None)
    }

    fn reader(&self, _options: &Options) -> Result<Box<dyn TensorReader>> {
        trap("Format.tensor_reader");
        Ok(Box::new(AnyObject(Dropped("TensorReader.drop"))))
    }

    fn writer(&self, _options: &Options) -> Result<Box<dyn TensorWriter>> {
        trap("Format.tensor_writer");
        Ok(Box::new(AnyObject(Dropped("TensorWriter.drop"))))
    }

    fn record_reader(&self, _options: &Options) -> Result<Box<dyn RecordReader>> {
        trap("Format.record_reader");
        Ok(Box::new(AnyObject(Dropped("RecordReader.drop"))))
    }

    fn record_writer(&self, _options: &Options) -> Result<Box<dyn RecordWriter>> {
        trap("Format.record_writer");
        Ok(Box::new(AnyObject(Dropped("RecordWriter.drop"))))
    }
}

/// An object that only panics when it is dropped.
struct AnyObject(#[expect(dead_code, reason = "for its drop")] Dropped);

impl TensorReader for AnyObject {
    fn read(
        &self,
        _source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        _context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        trap("TensorReader.read");
        let storage = catalog.storage(Storage::encoded(1, 4))?;
        catalog.tensor("t", Dtype::U8, &[4], storage, 0)?;
        Ok(Box::new(AnyObject(Dropped("TensorDecoder.drop"))))
    }
}

impl TensorDecoder for AnyObject {
    fn decode(&self, _: &dyn Source, _: u64, output: &mut dyn ByteSink, _: &dyn Context) -> Result<()> {
        trap("TensorDecoder.decode");
        output.write(&[1, 2, 3, 4])
    }
}

impl TensorWriter for AnyObject {
    fn plan(
        &self,
        _catalog: &dyn CatalogView,
        _target: &Target,
        layout: &mut dyn LayoutSink,
        _context: &dyn Context,
    ) -> Result<Box<dyn TensorPlan>> {
        trap("TensorWriter.plan");
        let file = layout.file("encoded", Role::Data)?;
        layout.encoded(file, Encoded::tensors([TensorId(0)]).of_len(1))?;
        layout.streamed_file("streamed", Role::Data, &[])?;
        Ok(Box::new(AnyObject(Dropped("TensorPlan.drop"))))
    }

    fn steps(&self, _catalog: &dyn CatalogView, _context: &dyn Context) -> Result<Vec<String>> {
        trap("TensorWriter.steps");
        Ok(Vec::new())
    }
}

impl TensorPlan for AnyObject {
    fn stream(
        &self,
        _: OutputId,
        _: &dyn CatalogView,
        output: &mut dyn ByteSink,
        _: &dyn Context,
    ) -> Result<()> {
        trap("TensorPlan.stream");
        output.write(b"s")
    }

    fn encode(
        &self,
        _: EncodedId,
        _: &dyn CatalogView,
        output: &mut dyn ByteSink,
        _: &dyn Context,
    ) -> Result<Vec<u8>> {
        trap("TensorPlan.encode");
        output.write(b"e")?;
        Ok(Vec::new())
    }

    fn seal(&self, _: &dyn Digests, _: &mut dyn SealSink, _: &dyn Context) -> Result<()> {
        trap("TensorPlan.seal");
        Ok(())
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]))
}

fn rows() -> RecordBatch {
    let numbers: ArrayRef = Arc::new((0..10).collect::<Int64Array>());
    RecordBatch::try_new(schema(), vec![numbers]).unwrap()
}

impl RecordReader for AnyObject {
    fn open(
        &self,
        _source: Arc<dyn Source>,
        _losses: &mut dyn LossSink,
        _context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>> {
        trap("RecordReader.open");
        let split = Split { file: "in".to_owned(), records: Some(10), ..Split::default() };
        Ok(Box::new(Set([split], Dropped("RecordSet.drop"))))
    }

    fn index(&self, _: &dyn Source, _: &mut dyn ByteSink, _: &dyn Context) -> Result<IndexTotals> {
        trap("RecordReader.index");
        Ok(IndexTotals::default())
    }
}

struct Set([Split; 1], #[expect(dead_code, reason = "for its drop")] Dropped);

impl RecordSet for Set {
    fn schema(&self) -> SchemaRef {
        trap("RecordSet.schema");
        schema()
    }

    fn splits(&self) -> &[Split] {
        trap("RecordSet.splits");
        &self.0
    }

    fn scan(&self, _split: usize, _scan: &ScanRequest) -> Result<BatchStream> {
        trap("RecordSet.scan");
        Ok(Box::new(Stream(Some(rows()), Dropped("stream.drop"))))
    }

    fn json(&self, _split: usize, _most: u64, _output: &mut dyn ByteSink) -> Result<Option<u64>> {
        trap("RecordSet.json");
        Ok(None)
    }

    fn skipped(&self) -> Vec<SkippedRecord> {
        trap("RecordSet.skipped");
        Vec::new()
    }

    fn losses(&self, _losses: &mut dyn LossSink) -> Result<()> {
        trap("RecordSet.losses");
        Ok(())
    }
}

struct Stream(Option<RecordBatch>, #[expect(dead_code, reason = "for its drop")] Dropped);

impl Iterator for Stream {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        trap("stream.next");
        self.0.take().map(Ok)
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        schema()
    }
}

impl RecordWriter for AnyObject {
    fn plan(
        &self,
        _schema: &SchemaRef,
        _rows: Option<u64>,
        _target: &Target,
        _losses: &mut dyn LossSink,
        _context: &dyn Context,
    ) -> Result<Box<dyn RecordPlan>> {
        trap("RecordWriter.plan");
        Ok(Box::new(Plan(["list".to_owned()], Dropped("RecordPlan.drop"))))
    }
}

struct Plan([String; 1], #[expect(dead_code, reason = "for its drop")] Dropped);

impl RecordPlan for Plan {
    fn files(&self) -> &[String] {
        trap("RecordPlan.files");
        &[]
    }

    fn roll(&self) -> Option<Roll> {
        trap("RecordPlan.roll");
        Some(Roll::Rows(5))
    }

    fn name(&self, file: usize, _count: usize) -> Result<String> {
        trap("RecordPlan.name");
        Ok(file.to_string())
    }

    fn supersedes(&self) -> &[String] {
        trap("RecordPlan.supersedes");
        &[]
    }

    fn group(&self) -> Group {
        trap("RecordPlan.group");
        Group::default()
    }

    fn begin(&self, _: usize, _: &mut dyn ByteSink) -> Result<()> {
        trap("RecordPlan.begin");
        Ok(())
    }

    fn encode(&self, _: &[RecordBatch], _: &mut dyn ByteSink, _: &mut dyn LossSink) -> Result<Vec<u8>> {
        trap("RecordPlan.encode");
        Ok(Vec::new())
    }

    fn notes(&self) -> Vec<String> {
        trap("RecordPlan.notes");
        Vec::new()
    }

    fn finish(&self, _: usize, _: &[PlacedPiece], _: &mut dyn ByteSink) -> Result<()> {
        trap("RecordPlan.finish");
        Ok(())
    }

    fn sealed(&self) -> &[String] {
        trap("RecordPlan.sealed");
        &self.0
    }

    fn seal(&self, _: usize, _: &[WrittenFile], _: &mut dyn ByteSink) -> Result<()> {
        trap("RecordPlan.seal");
        Ok(())
    }
}

/// Makes all calls that a host may make, with a panic in one entry point. Returns the resulting
/// error.
fn all_calls(entry: &'static str) -> Result<()> {
    *TRAP.lock().unwrap_or_else(PoisonError::into_inner) = entry;
    let formats = offered_by::<Root<Trap>>()?;
    let format = RemoteFormat::new("trap", formats.into_iter().next().unwrap())?;
    let faults = format.faults().clone();
    let called = all_calls_of(&format);
    drop(format);
    called.and_then(|()| faults.check())
}

fn all_calls_of(format: &RemoteFormat) -> Result<()> {
    let (source, context) = (MemorySource::file("in", *b"x"), MemoryContext::default());
    format.probe(&source, &context)?;
    let view = MemoryView::read(format, &[], &source, &context)?;
    view.tensor_named("t")?;
    format.writer(&Options::default())?.steps(&view, &context)?;
    memory::write(format, &[], &view, &Target::Folder, &context)?;

    let source = Arc::new(source);
    let set = records::open(format, &[], source.clone(), &context)?;
    let mut stream = set.stream(0, &Batches::default())?;
    stream.try_for_each(|batch| batch.map(drop).map_err(from_stream))?;
    set.json(0, 1, &mut Vec::new())?;
    set.skipped();
    set.losses()?;
    let options = Options::default();
    format.record_reader(&options)?.index(&*source, &mut Vec::new(), &context)?;
    records::write(format, &[], &schema(), &[vec![rows()]], &Target::Folder, &context)?;
    let plan =
        format.record_writer(&options)?.plan(&schema(), None, &Target::Folder, &mut Vec::new(), &context)?;
    plan.notes();
    Ok(())
}

/// Returns the plugin's entry points at the boundary.
fn entries() -> BTreeSet<&'static str> {
    let is_of_plugin = |place: &&str| {
        OBJECTS.iter().any(|object| place.strip_prefix(object).is_some_and(|rest| rest.starts_with('.')))
    };
    let places: BTreeSet<String> = tensorferry_abi::layout()
        .lines()
        .filter_map(|line| Some(line.strip_prefix("Ferry")?.split_once(' ')?.0.replace("Table.", ".")))
        .collect();
    let places: Vec<&'static str> = places.into_iter().map(|place| &*place.leak()).collect();
    places.into_iter().filter(is_of_plugin).collect()
}

#[test]
fn a_panic_in_every_entry_point_and_destructor_names_it() {
    all_calls("").unwrap();
    let mut entries = entries();
    // The SDK implements this entry point, so the plugin author's code cannot panic in it.
    assert!(entries.remove("RecordSet.fault"));
    assert!(entries.len() > 30, "{entries:?}");
    for entry in entries {
        is_reported(entry, entry);
    }
    for object in OBJECTS {
        is_reported(format!("{object}.drop").leak(), "drop");
    }
    is_reported("stream.next", "RecordSet.scan");
    is_reported("stream.drop", "drop");
    let error = all_calls("init").unwrap_err();
    assert!(error.message().starts_with("panicked in init: on request"), "{error}");
}

/// Asserts that a panic becomes an error that names the plugin and the entry point.
fn is_reported(entry: &'static str, named: &str) {
    let error: Error =
        all_calls(entry).err().unwrap_or_else(|| panic!("a panic in {entry} was not reported"));
    assert_eq!(error.kind(), ErrorKind::Plugin, "{entry}: {error}");
    let start = format!("plugin trap: panicked in {named}: on request");
    assert!(error.message().starts_with(&start), "{entry}: {error}");
}
