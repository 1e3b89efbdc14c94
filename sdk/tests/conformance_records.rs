//! Tests that the conformance suite detects record formats that break its rules, and accepts a
//! record format that follows them.
#![cfg(feature = "arrow-60")]
#![expect(clippy::unwrap_used, reason = "tests")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::Int64Type;
use tensorferry_sdk::arrow_array::{
    Array, ArrayRef, Int64Array, RecordBatch, RecordBatchIterator, RecordBatchOptions,
};
use tensorferry_sdk::arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use tensorferry_sdk::conformance::{ConformanceReport, Sample, check};
use tensorferry_sdk::records::{
    BatchStream, Batches, IndexTotals, PlacedPiece, RecordPlan, RecordReader, RecordSet, RecordWriter,
    ScanRequest, Split, narrowed, stream_error,
};
use tensorferry_sdk::{
    ByteSink, Capabilities, Context, Description, Error, Format, Loss, LossKind, LossSink, Options, Purpose,
    Result, Score, Source, Target,
};

/// The rule that the test format breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    UndeclaredWriter,
    DeniesItsFiles,
    LosesRows,
    TrustsItsGuess,
    Miscounts,
    SwapsSplits,
    OtherFile,
    ReadsOnce,
    ReadsAnySplit,
    IgnoresColumns,
    OtherColumns,
    IgnoresRows,
    IgnoresBytes,
    DropsWithSmallBatches,
    IgnoresFirstRow,
    LeavesOutTooMuch,
    OtherSchema,
    NeverEnds,
    GoesOnAfterErrors,
    PanicsWhenCut,
    BelievesLengths,
    BlamesItself,
    MakesUpRows,
    SwallowsLimits,
    TooManyLines,
    MissesLines,
    UndeclaredIndex,
    MiscountsIndex,
    WritesTheTime,
    CountsPieces,
    WritesBatches,
    LeavesTheFolder,
    NoRoom,
    OffByOne,
    ForgetsNulls,
    DropsColumns,
    MakesUpColumns,
    NeedsRows,
    RefusesAsMalformed,
}

/// A format of integer columns. A file starts with `count: u8`, followed by `len: u8, name` for
/// each column. The rows follow, with `is_there: u8, i64` for each column. Each half of the rows is
/// one split.
#[derive(Clone, Copy)]
struct Ints(Fault);

const CELL: usize = 9;

impl Format for Ints {
    fn describe(&self) -> Description {
        let mut capabilities = Capabilities::READ_RECORDS;
        if self.0 != Fault::UndeclaredWriter {
            capabilities = capabilities | Capabilities::WRITE_RECORDS;
        }
        if self.0 != Fault::UndeclaredIndex {
            capabilities = capabilities | Capabilities::INDEX;
        }
        Description::new("ints", "rows of integers").suffixes([".ints"]).capabilities(capabilities)
    }

    fn probe(&self, _source: &dyn Source, _context: &dyn Context) -> Result<Option<Score>> {
        Ok((self.0 == Fault::DeniesItsFiles).then_some(Score::NO))
    }

    fn record_reader(&self, _options: &Options) -> Result<Box<dyn RecordReader>> {
        Ok(Box::new(*self))
    }

    fn record_writer(&self, _options: &Options) -> Result<Box<dyn RecordWriter>> {
        Ok(Box::new(*self))
    }
}

struct Set {
    fault: Fault,
    schema: SchemaRef,
    splits: Vec<Split>,
    rows: Vec<Vec<Vec<Option<i64>>>>,
    requested: Mutex<Vec<usize>>,
}

impl Ints {
    fn parse(self, source: &dyn Source, context: &dyn Context) -> Result<(Vec<String>, Vec<u8>)> {
        let name = source.entry().name();
        let file = source.open(name)?;
        let len = source.len(file);
        if self.0 == Fault::BelievesLengths && len > 0 {
            let count = source.read_vec(file, 0, 1, context.limits())?[0];
            let _ = source.read_at(file, 0, &mut vec![0; usize::from(count) << 16]);
        }
        let bytes = match source.read_vec(file, 0, len, context.limits()) {
            Err(_) if self.0 == Fault::SwallowsLimits => vec![0],
            other => other?,
        };
        let mut rest = &bytes[..];
        let cut = || match self.0 {
            Fault::PanicsWhenCut => panic!("it is cut"),
            Fault::BlamesItself => Error::plugin("it is cut"),
            _ => Error::malformed("it is cut").file(name),
        };
        let mut take = |count: usize| {
            let (taken, left) = rest.split_at_checked(count).ok_or_else(cut)?;
            rest = left;
            Ok::<_, Error>(taken)
        };
        let mut names = Vec::new();
        for _ in 0..take(1)?[0] {
            let len = take(1)?[0];
            let name = String::from_utf8(take(usize::from(len))?.to_vec());
            names.push(name.map_err(|_| Error::malformed("not text").file(name_of(source)))?);
        }
        let row = CELL * names.len();
        let mut rest = rest.to_vec();
        if self.0 == Fault::MakesUpRows {
            rest.resize(rest.len().next_multiple_of(row.max(1)), 7);
            rest.extend(vec![1; row]);
        }
        if (row == 0 && !rest.is_empty()) || (row > 0 && rest.len() % row > 0) {
            return Err(cut());
        }
        Ok((names, rest))
    }
}

fn name_of(source: &dyn Source) -> &str {
    source.entry().name()
}

impl RecordReader for Ints {
    fn open(
        &self,
        source: Arc<dyn Source>,
        _losses: &mut dyn LossSink,
        context: &dyn Context,
    ) -> Result<Box<dyn RecordSet>> {
        let (names, bytes) = self.parse(&*source, context)?;
        let row = |row: &[u8]| {
            row.chunks_exact(CELL)
                .map(|cell| (cell[0] > 0).then(|| i64::from_le_bytes(cell[1..].try_into().unwrap())))
                .collect()
        };
        let mut rows: Vec<Vec<Option<i64>>> =
            bytes.chunks_exact((CELL * names.len()).max(1)).map(row).collect();
        if self.0 == Fault::NeedsRows && rows.is_empty() {
            return Err(Error::malformed("no rows"));
        }
        let guesses = self.0 == Fault::TrustsItsGuess && context.purpose().has(Purpose::ONCE);
        if self.0 == Fault::LosesRows || guesses {
            rows.pop();
        }
        if self.0 == Fault::OffByOne {
            rows.iter_mut().flatten().flatten().for_each(|value| *value = value.wrapping_add(1));
        }
        let second = rows.split_off(rows.len() / 2);
        let mut rows = vec![rows, second];
        let mut fields: Vec<_> = names.iter().map(|name| Field::new(name, DataType::Int64, true)).collect();
        if self.0 == Fault::MakesUpColumns {
            fields.push(Field::new("new", DataType::Int64, true));
            rows.iter_mut().flatten().for_each(|row| row.push(None));
        }
        let mut offset = bytes.len() as u64;
        let mut splits: Vec<Split> = rows
            .iter()
            .map(|rows| {
                let file = if self.0 == Fault::OtherFile { "other" } else { name_of(&*source) }.to_owned();
                let records = rows.len() as u64 + u64::from(self.0 == Fault::Miscounts);
                let bytes = (rows.len() * CELL * names.len()) as u64;
                offset += bytes;
                Split { file, offset: offset - bytes, bytes, records: Some(records) }
            })
            .collect();
        if self.0 == Fault::SwapsSplits {
            rows.reverse();
            splits.reverse();
        }
        let schema = Arc::new(Schema::new(fields));
        Ok(Box::new(Set { fault: self.0, schema, splits, rows, requested: Mutex::default() }))
    }

    fn index(
        &self,
        source: &dyn Source,
        output: &mut dyn ByteSink,
        context: &dyn Context,
    ) -> Result<IndexTotals> {
        let (names, bytes) = self.parse(source, context)?;
        output.write(b"index")?;
        let records = (bytes.len() / (CELL * names.len()).max(1)) as u64;
        Ok(IndexTotals { records: records + u64::from(self.0 == Fault::MiscountsIndex), bytes: 0 })
    }
}

impl RecordSet for Set {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn splits(&self) -> &[Split] {
        &self.splits
    }

    fn stream(&self, split: usize, batches: &Batches) -> Result<BatchStream> {
        let rows = match self.rows.get(split) {
            None if self.fault == Fault::ReadsAnySplit => &self.rows[0],
            other => other.ok_or_else(|| Error::plugin("no such split"))?,
        };
        let mut requested = self.requested.lock().unwrap();
        let rows =
            if self.fault == Fault::ReadsOnce && requested.contains(&split) { &Vec::new() } else { rows };
        requested.push(split);
        let all = || (0..self.schema.fields().len()).collect::<Vec<_>>();
        let mut columns = match &batches.columns {
            Some(columns) if self.fault != Fault::IgnoresColumns => columns.clone(),
            _ => all(),
        };
        let fields: Vec<_> = columns.iter().map(|&column| self.schema.field(column).clone()).collect();
        if self.fault == Fault::OtherColumns && columns == [1] {
            columns = vec![0];
        }
        let wrong = self.fault == Fault::OtherSchema;
        let of_batches: Vec<Field> = fields.iter().cloned().map(|f| f.with_nullable(!wrong)).collect();
        let of_batches = Arc::new(Schema::new(of_batches));
        let by_bytes = usize::try_from(batches.bytes).unwrap() / (8 * columns.len().max(1));
        let by_bytes = if self.fault == Fault::IgnoresBytes { usize::MAX } else { by_bytes.max(1) };
        let by_rows = if self.fault == Fault::IgnoresRows { usize::MAX } else { batches.rows };
        let mut given: Vec<Result<RecordBatch, ArrowError>> = Vec::new();
        for chunk in rows.chunks(by_bytes.min(by_rows)) {
            let column = |&column: &usize| {
                Arc::new(
                    chunk
                        .iter()
                        .map(|row| row[column].filter(|_| !wrong).or(wrong.then_some(0)))
                        .collect::<Int64Array>(),
                ) as ArrayRef
            };
            let options = RecordBatchOptions::new().with_row_count(Some(chunk.len()));
            let arrays = columns.iter().map(column).collect();
            given.push(RecordBatch::try_new_with_options(of_batches.clone(), arrays, &options));
        }
        if self.fault == Fault::DropsWithSmallBatches && batches.rows == 1 {
            given.pop();
        }
        if self.fault == Fault::GoesOnAfterErrors {
            // This value occurs only in damaged files.
            let is_odd =
                |row: &Vec<Option<i64>>| row.iter().flatten().any(|value| value.unsigned_abs() > 1 << 50);
            if rows.iter().any(is_odd) && rows.len() < 10 && batches.rows == 64 {
                given.insert(0, Err(stream_error(Error::malformed("an odd value"))));
            }
        }
        let schema = Arc::new(Schema::new(fields));
        if self.fault == Fault::NeverEnds {
            let empty = RecordBatch::new_empty(schema.clone());
            return Ok(Box::new(RecordBatchIterator::new(
                std::iter::repeat_with(move || Ok(empty.clone())),
                schema,
            )));
        }
        // This stream continues after errors.
        Ok(Box::new(RecordBatchIterator::new(given, schema)))
    }

    fn scan(&self, split: usize, scan: &ScanRequest) -> Result<BatchStream> {
        let mut scan = scan.clone();
        if self.fault == Fault::IgnoresFirstRow {
            scan.first_row = 0;
        }
        if self.fault == Fault::LeavesOutTooMuch && !scan.predicate.is_empty() {
            scan.first_row += 1;
        }
        narrowed(self.stream(split, &scan.batches())?, &self.schema, &scan)
    }

    fn json(&self, split: usize, max: u64, output: &mut dyn ByteSink) -> Result<Option<u64>> {
        let rows = self.rows[split].len();
        let max = usize::try_from(max).unwrap_or(usize::MAX).saturating_add(match self.fault {
            Fault::TooManyLines => 1,
            _ => 0,
        });
        let count = rows.min(max).saturating_sub(usize::from(self.fault == Fault::MissesLines));
        for _ in 0..count {
            output.write(b"{}")?;
        }
        Ok(Some(count as u64))
    }
}

struct Plan {
    fault: Fault,
    files: Vec<String>,
    head: Vec<u8>,
    columns: Vec<usize>,
    pieces: AtomicUsize,
}

static TIME: AtomicU8 = AtomicU8::new(0);

impl RecordWriter for Ints {
    fn plan(
        &self,
        schema: &SchemaRef,
        _rows: Option<u64>,
        target: &Target,
        losses: &mut dyn LossSink,
        _context: &dyn Context,
    ) -> Result<Box<dyn RecordPlan>> {
        let (mut columns, mut head) = (Vec::new(), vec![0]);
        for (place, field) in schema.fields().iter().enumerate() {
            if *field.data_type() != DataType::Int64 {
                losses.loss(Loss::new(LossKind::Record, field.name(), "the format holds only integers"))?;
                continue;
            }
            if schema.fields().iter().take(place).any(|other| other.name() == field.name()) {
                let refusal = Error::unsupported("two columns of the same name");
                return Err(match self.0 {
                    Fault::RefusesAsMalformed => Error::malformed("two columns of the same name"),
                    _ => refusal,
                });
            }
            if self.0 == Fault::DropsColumns && field.name() == "b" {
                continue;
            }
            columns.push(place);
            head[0] += 1;
            head.push(u8::try_from(field.name().len()).unwrap());
            head.extend(field.name().as_bytes());
        }
        if columns.is_empty() {
            return Err(Error::unsupported("no column of integers"));
        }
        if self.0 == Fault::WritesTheTime {
            head.extend(
                [0; CELL - 1]
                    .into_iter()
                    .chain([TIME.fetch_add(1, Ordering::Relaxed)])
                    .cycle()
                    .take(CELL * columns.len()),
            );
        }
        let path = match target {
            Target::File(path) => path,
            Target::Folder if self.0 == Fault::LeavesTheFolder => "../a.ints",
            Target::Folder => "a.ints",
        };
        let files = vec![path.to_owned()];
        Ok(Box::new(Plan { fault: self.0, files, head, columns, pieces: AtomicUsize::new(0) }))
    }
}

impl RecordPlan for Plan {
    fn files(&self) -> &[String] {
        &self.files
    }

    fn group(&self) -> tensorferry_sdk::records::Group {
        let rows = usize::from(self.fault != Fault::NoRoom);
        tensorferry_sdk::records::Group { rows, ..Default::default() }
    }

    fn begin(&self, _file: usize, output: &mut dyn ByteSink) -> Result<()> {
        output.write(&self.head)
    }

    fn encode(
        &self,
        batches: &[RecordBatch],
        output: &mut dyn ByteSink,
        _losses: &mut dyn LossSink,
    ) -> Result<Vec<u8>> {
        let number = self.pieces.fetch_add(1, Ordering::Relaxed);
        for batch in batches {
            for row in 0..batch.num_rows() {
                for &column in &self.columns {
                    let column = batch.column(column).as_primitive::<Int64Type>();
                    let is_there = column.is_valid(row) || self.fault == Fault::ForgetsNulls;
                    let value = if column.is_valid(row) { column.value(row) } else { 0 };
                    output.write(&[u8::from(is_there)])?;
                    output.write(&value.to_le_bytes())?;
                }
            }
            if self.fault == Fault::WritesBatches {
                output.write(&vec![0; CELL * self.columns.len()])?;
            }
        }
        let note = (self.fault == Fault::CountsPieces).then(|| u8::try_from(number).unwrap());
        Ok(note.into_iter().collect())
    }

    fn finish(&self, _file: usize, _pieces: &[PlacedPiece], _output: &mut dyn ByteSink) -> Result<()> {
        Ok(())
    }
}

fn run(fault: Fault) -> ConformanceReport {
    let mut bytes = b"\x02\x01a\x01b".to_vec();
    for row in 1..=5_i64 {
        for value in [row, 100 - row] {
            bytes.push(1);
            bytes.extend(value.to_le_bytes());
        }
    }
    check(&Ints(fault), &[Sample::file("a.ints", bytes).holding(&["a", "b"]).of_rows(5)])
}

#[test]
fn a_sound_format_passes() {
    let report = run(Fault::None);
    // The 95-byte file is truncated at each byte, and each byte is changed in two ways.
    assert_eq!((report.damaged, report.rows), (3 * 95, 5));
    assert!(report.written > 20, "{report:?}");
    let fair = |refusal: &String| {
        refusal.ends_with("no column of integers") || refusal.ends_with("of the same name")
    };
    assert!(report.refused.iter().all(fair), "{report:?}");
}

#[test]
fn each_fault_is_caught_under_its_rule() {
    let rules = [
        (Fault::UndeclaredWriter, "every side of a format is declared"),
        (Fault::DeniesItsFiles, "a format recognizes its own files"),
        (Fault::LosesRows, "the splits together contain all rows"),
        (Fault::TrustsItsGuess, "a single pass returns the same rows or an error"),
        (Fault::Miscounts, "a split has as many rows as declared"),
        (Fault::SwapsSplits, "splits are in the order of the input"),
        (Fault::OtherFile, "a split is in one of the input's files"),
        (Fault::ReadsOnce, "reading a split again gives the same rows"),
        (Fault::ReadsAnySplit, "reading a split that does not exist is an error"),
        (Fault::IgnoresColumns, "a stream has the requested columns"),
        (Fault::OtherColumns, "requested columns have the same values"),
        (Fault::IgnoresRows, "a batch has at most the requested number of rows"),
        (Fault::IgnoresBytes, "a batch has about the requested size"),
        (Fault::DropsWithSmallBatches, "the rows are the same in batches of any length"),
        (Fault::IgnoresFirstRow, "a scan has exactly the rows of its range"),
        (Fault::LeavesOutTooMuch, "a predicate keeps every row for which it is true"),
        (Fault::OtherSchema, "every batch has the schema of its set"),
        (Fault::NeverEnds, "a stream of a small input ends"),
        (Fault::GoesOnAfterErrors, "a stream ends when it fails"),
        (Fault::PanicsWhenCut, "a format never panics"),
        (Fault::BelievesLengths, "no buffer is longer than its file"),
        (Fault::BlamesItself, "a damaged input never causes a plugin"),
        (Fault::MakesUpRows, "the splits together contain all rows"),
        (Fault::SwallowsLimits, "a limit never drops content silently"),
        (Fault::TooManyLines, "lines are limited as requested"),
        (Fault::MissesLines, "every row has a line"),
        (Fault::UndeclaredIndex, "an index is declared"),
        (Fault::MiscountsIndex, "an index covers all records"),
        (Fault::WritesTheTime, "the same rows give the same files and losses"),
        (Fault::CountsPieces, "a piece does not depend on others"),
        (Fault::WritesBatches, "the same rows give the same bytes however they are batched"),
        (Fault::LeavesTheFolder, "the files of a plan have unique names inside the folder"),
        (Fault::NoRoom, "a piece has room for a row"),
        (Fault::OffByOne, "rows are read back as they were written"),
        (Fault::ForgetsNulls, "rows are read back as they were written"),
        (Fault::DropsColumns, "rows are read back as they were written"),
        (Fault::MakesUpColumns, "no column is made up"),
        (Fault::NeedsRows, "a format reads what it writes"),
        (Fault::RefusesAsMalformed, "rows are refused with a usage or unsupported error"),
    ];
    for (fault, rule) in rules {
        let payload = catch_unwind(AssertUnwindSafe(|| run(fault))).err();
        let message = payload.as_ref().and_then(|p| p.downcast_ref::<String>());
        let message = message.unwrap_or_else(|| panic!("{fault:?} passes"));
        assert!(message.contains(rule), "{fault:?}: {message}");
    }
}
