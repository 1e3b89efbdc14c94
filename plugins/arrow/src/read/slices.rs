//! Reads a large record batch in slices of rows. The buffers of a batch are at known offsets, so
//! each slice reads only the ranges of the buffers that its rows need. Slices of compressed buffers
//! are decompressed in order, with a decoder per buffer: a temporary file would need as much space
//! as the batch, often in memory.

use super::claims;
use super::column::{Column, Parts};
use super::contents::{Batch, Contents};
use super::decode::Values;
use super::decoders::{DecoderCache, DecoderKey};
use super::message::parse;
use super::stored::StoredBuffer;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::{RecordBatch, RecordBatchOptions};
use tensorferry_sdk::arrow_schema::SchemaRef;
use tensorferry_sdk::{Error, Limits, Result};

/// Approximate size of a slice. Sizes do not depend on the memory budget, because the ends of
/// batches may determine where an output's pieces end.
pub(super) const SLICE: u64 = 4 << 20;
/// Maximum size of a slice with more than one row.
const MAX_SLICE: u64 = 16 << 20;

/// The slices of a record batch.
pub(super) struct Slices {
    columns: Vec<Column>,
    schema: SchemaRef,
    values: Arc<Values>,
    rows: u64,
    /// First row that has not been read.
    next: u64,
    /// Number of bytes of all columns after decompression.
    pub(super) bytes: u64,
    header_bytes: u64,
    decoders: Arc<DecoderCache>,
    key: DecoderKey,
}

impl Slices {
    /// Locates the buffers of the columns with these indices.
    pub(super) fn open(
        contents: &Contents,
        batch: &Batch,
        columns: &[usize],
        values: Arc<Values>,
        (decoders, split): (&Arc<DecoderCache>, usize),
        limits: &Limits,
    ) -> Result<Self> {
        let place = &batch.place;
        let bytes = contents.file.message(place, limits)?;
        let message = parse(&bytes)?;
        let data =
            message.header_as_record_batch().ok_or_else(|| Error::transient("the file has changed"))?;
        // Repeat the check, because the file may have changed.
        let rows = claims::check(data, place)?;
        let mut parts = Parts::new(&contents.file, place.body, message.version(), data);
        let mut all = Vec::with_capacity(columns.len());
        for (index, field) in contents.schema.fields().iter().enumerate() {
            let column = Column::new(field, &mut parts)?;
            if columns.contains(&index) {
                if column.len != rows {
                    return Err(Error::malformed("a column has the wrong number of rows")
                        .column(field.name())
                        .expected(rows)
                        .found(column.len));
                }
                all.push(column);
            }
        }
        parts.end()?;
        let key = (split, place.offset, decoders.stream(), 0);
        let mut buffers = Vec::new();
        all.iter_mut().for_each(|column| column.list_buffers(&mut buffers));
        if let Some(compression) = data.compression() {
            StoredBuffer::open_frames(&mut buffers, compression.codec(), decoders, key)?;
        }
        let bytes = buffers.iter().fold(0_u64, |all, buffer| all.saturating_add(buffer.len()));
        for buffer in buffers {
            let ahead = u128::from(decoders.ahead) * u128::from(buffer.len()) / u128::from(bytes.max(1));
            buffer.set_ahead(u64::try_from(ahead).unwrap_or(u64::MAX));
        }
        let schema = contents.schema.project(columns).map_err(|error| Error::plugin(error.to_string()))?;
        Ok(Self {
            columns: all,
            schema: schema.into(),
            values,
            rows,
            next: 0,
            bytes,
            header_bytes: limits.header_bytes,
            decoders: decoders.clone(),
            key,
        })
    }

    /// Returns the number of rows that take up this many bytes on average.
    pub(super) fn rows_in(&self, bytes: u64) -> u64 {
        let rows = u128::from(bytes) * u128::from(self.rows) / u128::from(self.bytes.max(1));
        u64::try_from(rows).unwrap_or(u64::MAX)
    }

    /// Skips rows without reading them.
    pub(super) fn skip(&mut self, rows: u64) {
        self.next = self.next.saturating_add(rows).min(self.rows);
    }

    /// Returns the next rows, at most `max`. If their values are larger than the average, returns
    /// fewer rows.
    pub(super) fn next(&mut self, max: u64) -> Result<Option<RecordBatch>> {
        let mut rows = max.min(self.rows - self.next);
        if rows == 0 {
            return Ok(None);
        }
        while let Some(name) = self.too_large(rows)? {
            if rows == 1 {
                return Err(Error::limit("a row is too long to hold in memory")
                    .column(name)
                    .hint("pass --memory N or --limit header_bytes=N to allow more")
                    .expected(format!("at most {} bytes", self.header_bytes)));
            }
            rows = rows.div_ceil(2);
        }
        let (start, values) = (self.next, &self.values);
        let columns = self.columns.iter_mut().map(|column| {
            let slice = column.slice(start, rows, values);
            slice.map_err(|error| error.column(column.field().name()))
        });
        let columns = columns.collect::<Result<_>>()?;
        self.next += rows;
        let rows = usize::try_from(rows).map_err(|_| Error::limit("too long for the address space"))?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = self.schema.clone();
        crate::fault::decoded(|| RecordBatch::try_new_with_options(schema, columns, &options)).map(Some)
    }

    /// Returns the name of the column with which the next rows exceed the maximum size of a slice.
    fn too_large(&mut self, rows: u64) -> Result<Option<String>> {
        let mut left = if rows == 1 { self.header_bytes } else { MAX_SLICE };
        for column in &mut self.columns {
            let name = |column: &Column| column.field().name().to_owned();
            let fits = column.measure(self.next, rows, &mut left);
            if !fits.map_err(|error| error.column(name(column)))? {
                return Ok(Some(name(column)));
            }
        }
        Ok(None)
    }
}

impl Drop for Slices {
    fn drop(&mut self) {
        self.decoders.end(self.key);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::super::{contents, decode, dictionaries::DictionaryCache};
    use super::*;
    use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
    use std::fs;
    use std::path::Path;
    use tensorferry_sdk::arrow_array::builder::{ListBuilder, MapBuilder, StringBuilder, StringViewBuilder};
    use tensorferry_sdk::arrow_array::types::{Float32Type, Int8Type, Int16Type, Int32Type};
    use tensorferry_sdk::arrow_array::{
        Array, ArrayRef, BooleanArray, DictionaryArray, FixedSizeListArray, Int16Array, Int32Array,
        Int64Array, LargeBinaryArray, ListArray, ListViewArray, NullArray, RunArray, StringArray,
        StructArray, UnionArray, new_null_array,
    };
    use tensorferry_sdk::arrow_schema::{DataType, Field, UnionFields};
    use tensorferry_sdk::{ErrorKind, MemoryContext, MemorySource, Source};

    const ROWS: usize = 1000;

    fn located(name: &str, bytes: Vec<u8>) -> Result<Contents> {
        let source: Arc<dyn Source> = Arc::new(MemorySource::file(name, bytes));
        contents::read(&source, name, &MemoryContext::default())
    }

    /// Reads a batch in slices of `rows` rows, after `skip` rows.
    fn sliced(
        contents: &Contents,
        index: usize,
        (skip, rows): (u64, u64),
        limits: &Limits,
    ) -> Result<Vec<RecordBatch>> {
        // A damaged file may have no batches.
        let Some(batch) = contents.batches.get(index).copied() else { return Ok(Vec::new()) };
        let values = DictionaryCache::default().after(contents, batch.dictionaries, limits)?;
        let columns: Vec<usize> = (0..contents.schema.fields().len()).collect();
        let decoders = Arc::new(DecoderCache::new(limits, 1));
        let mut slices = Slices::open(contents, &batch, &columns, values, (&decoders, 0), limits)?;
        slices.skip(skip);
        let found = std::iter::from_fn(|| slices.next(rows).transpose()).collect();
        drop(slices);
        assert_eq!(decoders.len(), 0, "decoders remain after the end of the batch");
        found
    }

    /// Reads a batch as a whole, and checks that its slices have the same rows. Returns the number
    /// of compared slices.
    fn check_same(name: &str, contents: &Contents, limits: &Limits, sizes: &[(u64, u64)]) -> usize {
        let mut compared = 0;
        for (index, batch) in contents.batches.iter().enumerate() {
            let values = DictionaryCache::default().after(contents, batch.dictionaries, limits).unwrap();
            let columns: Vec<usize> = (0..contents.schema.fields().len()).collect();
            let (whole, _) =
                decode::batch(contents, batch, &columns, &values, u64::MAX, limits).unwrap().unwrap();
            for &(skip, rows) in sizes {
                let mut row = usize::try_from(skip.min(batch.rows)).unwrap();
                let slices = sliced(contents, index, (skip, rows), limits);
                for slice in slices.unwrap_or_else(|error| panic!("{name} by {rows} rows: {error:?}")) {
                    let expected = whole.slice(row, slice.num_rows());
                    for (found, expected) in slice.columns().iter().zip(expected.columns()) {
                        assert_eq!(found, expected, "{name} by {rows} rows at {row}");
                    }
                    row += slice.num_rows();
                    compared += 1;
                }
                assert_eq!(row, whole.num_rows(), "{name}");
            }
        }
        compared
    }

    fn nulls() -> NullBuffer {
        (0..ROWS).map(|row| row % 7 != 3).collect()
    }

    fn field(name: &str, data_type: &DataType) -> Arc<Field> {
        Arc::new(Field::new(name, data_type.clone(), true))
    }

    fn words() -> StringArray {
        (0..ROWS).map(|row| (row % 5 > 0).then(|| "word ä ".repeat(row % 9))).collect()
    }

    fn numbers() -> Int64Array {
        (0..ROWS).map(|row| (row % 3 > 0).then(|| i64::try_from(row * row).unwrap())).collect()
    }

    /// Returns views of values that are in several buffers, in no order.
    fn views() -> ArrayRef {
        let mut views = StringViewBuilder::new();
        let text: String = (0..20_000).map(|at| char::from(b'a' + u8::try_from(at % 26).unwrap())).collect();
        let blocks = [(); 2].map(|()| views.append_block(text.clone().into_bytes().into()));
        for row in 0..u32::try_from(ROWS).unwrap() {
            match row % 6 {
                0 => views.append_null(),
                1 => views.append_value("short"),
                _ => views
                    .try_append_view(blocks[row as usize % 2], row * 7919 % 19_000, 13 + row % 50)
                    .unwrap(),
            }
        }
        Arc::new(views.finish())
    }

    /// Returns a table with nested columns of every kind, which has nulls at every level.
    fn table() -> RecordBatch {
        let rows = i32::try_from(ROWS).unwrap();
        let list = |row: i32| (0..row % 4).map(move |item| (item != 1).then_some(row));
        let lists = (0..rows).map(|row| (row % 11 > 0).then(|| list(row)));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
        let mut nested = ListBuilder::new(ListBuilder::new(StringBuilder::new()));
        let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
        for row in 0..ROWS {
            for list in 0..row % 3 {
                (0..list + row % 2)
                    .for_each(|item| nested.values().values().append_value(format!("{row} {item}")));
                nested.values().append(list != 1);
                map.keys().append_value(format!("key {list}"));
                map.values().append_option((list == 0).then(|| format!("{row}")));
            }
            nested.append(row % 8 != 2);
            map.append(row % 10 != 1).unwrap();
        }
        let triples = (0..ROWS).map(|row| (row % 4 > 0).then_some([Some(0.5), None, Some(1.5)]));
        let triples = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(triples, 3);
        let offsets: ScalarBuffer<i32> = (0..rows).map(|row| row * 37 % 900).collect();
        let sizes: ScalarBuffer<i32> = (0..rows).map(|row| row % 5).collect();
        let list_views = ListViewArray::try_new(
            field("item", &DataType::Int64),
            offsets,
            sizes,
            Arc::new(numbers()),
            Some(nulls()),
        );
        let inner = StructArray::from(vec![
            (field("w", &DataType::Utf8), Arc::new(words()) as ArrayRef),
            (field("l", lists.data_type()), lists.clone()),
        ]);
        let outer = StructArray::try_new(
            vec![field("s", inner.data_type()), field("n", &DataType::Int64)].into(),
            vec![Arc::new(inner), Arc::new(numbers())],
            Some(nulls()),
        );
        let members =
            UnionFields::try_new([3, 9], [field("n", &DataType::Int64), field("w", &DataType::Utf8)])
                .unwrap();
        let ids: ScalarBuffer<i8> = (0..rows).map(|row| if row % 3 == 0 { 9 } else { 3 }).collect();
        let offsets: ScalarBuffer<i32> =
            (0..rows).map(|row| if row % 3 == 0 { row / 3 } else { row / 3 * 2 + row % 3 - 1 }).collect();
        let parts: Vec<ArrayRef> = vec![Arc::new(numbers()), Arc::new(words())];
        let union = |offsets| UnionArray::try_new(members.clone(), ids.clone(), offsets, parts.clone());
        let ends = Int16Array::from_iter_values((1..=ROWS / 4).map(|run| i16::try_from(run * 4).unwrap()));
        let runs = RunArray::<Int16Type>::try_new(&ends, &words().slice(0, ROWS / 4)).unwrap();
        let three_runs =
            RunArray::<Int32Type>::try_new(&Int32Array::from(vec![10, 700, rows]), &words().slice(0, 3));
        let dictionary: DictionaryArray<Int8Type> =
            (0..ROWS).map(|row| ["a", "b", "long enough"].get(row % 4).copied()).collect();
        let bytes: LargeBinaryArray = (0..ROWS).map(|row| (row % 2 > 0).then(|| vec![7; row % 40])).collect();
        let of_structs = ListArray::new(
            field("item", outer.as_ref().unwrap().data_type()),
            OffsetBuffer::from_lengths((0..ROWS).map(|row| usize::from(row % 2 > 0) * 2)),
            Arc::new(outer.as_ref().unwrap().clone()),
            None,
        );
        let columns: Vec<ArrayRef> = vec![
            Arc::new((0..ROWS).map(|row| (row % 13 > 0).then_some(row % 2 > 0)).collect::<BooleanArray>()),
            Arc::new(numbers()),
            Arc::new(words()),
            Arc::new(bytes),
            views(),
            lists,
            Arc::new(nested.finish()),
            Arc::new(map.finish()),
            Arc::new(triples),
            Arc::new(list_views.unwrap()),
            Arc::new(outer.unwrap()),
            Arc::new(union(None).unwrap()),
            Arc::new(union(Some(offsets)).unwrap()),
            Arc::new(runs),
            Arc::new(three_runs.unwrap()),
            Arc::new(dictionary),
            Arc::new(of_structs),
            Arc::new(NullArray::new(ROWS)),
            new_null_array(&DataType::FixedSizeBinary(5), ROWS),
            Arc::new(StructArray::new_empty_fields(ROWS, Some(nulls()))),
        ];
        let names = (0..columns.len()).map(|column| column.to_string());
        RecordBatch::try_from_iter_with_nullable(
            names.zip(columns).map(|(name, column)| (name, column, true)),
        )
        .unwrap()
    }

    fn file(rows: &RecordBatch, codec: Option<CompressionType>) -> Vec<u8> {
        let options = IpcWriteOptions::default().try_with_compression(codec).unwrap();
        let mut writer = FileWriter::try_new_with_options(Vec::new(), &rows.schema(), options).unwrap();
        writer.write(rows).unwrap();
        writer.into_inner().unwrap()
    }

    #[test]
    fn slices_of_every_type_have_the_rows_of_the_batch() {
        let sizes = [(0, 1), (0, 7), (5, 64), (63, 300), (0, 5000), (999, 1)];
        for codec in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
            let contents = located("a.arrow", file(&table(), codec)).unwrap();
            // With no memory, no decoder is kept, and each slice starts at the beginning.
            for memory in [256 << 20, 0] {
                let mut limits = Limits::default();
                limits.memory_bytes = memory;
                let compared = check_same(&format!("{codec:?}"), &contents, &limits, &sizes);
                assert_eq!(compared, 1000 + 143 + 16 + 4 + 1 + 1);
            }
        }
    }

    fn fixtures() -> Vec<(String, Vec<u8>)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/arrow");
        let files = fs::read_dir(folder).unwrap().map(|case| {
            let mut files = fs::read_dir(case.unwrap().path()).unwrap().map(|file| file.unwrap().path());
            let path = files.find(|path| path.file_stem().unwrap() == "data").unwrap();
            (path.to_str().unwrap().to_owned(), fs::read(path).unwrap())
        });
        files.collect()
    }

    #[test]
    fn slices_of_fixtures_have_the_rows_of_the_batches() {
        let (mut read, mut refused) = (0, 0);
        for (name, bytes) in fixtures() {
            let limits = Limits::default();
            let is_bad = name.contains("/bad_");
            match located("a.arrow", bytes) {
                Ok(contents) if !is_bad => {
                    check_same(&name, &contents, &limits, &[(0, 1), (0, 3), (2, 100)]);
                    read += 1;
                }
                Ok(contents) => {
                    let slices = |index| sliced(&contents, index, (0, 100), &limits);
                    let found = (0..contents.batches.len()).try_for_each(|index| slices(index).map(drop));
                    refused += usize::from(found.is_err());
                }
                Err(error) => {
                    assert!(is_bad, "{name}: {error}");
                    refused += 1;
                }
            }
        }
        assert_eq!((read, refused), (13, 15));
    }

    #[test]
    fn damaged_files_do_not_panic() {
        let (mut read, mut refused) = (0, 0);
        for codec in [None, Some(CompressionType::ZSTD)] {
            let bytes = file(&table().slice(0, 20), codec);
            for at in (0..bytes.len()).step_by(11) {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x81;
                let slices = located("a.arrow", damaged)
                    .and_then(|contents| sliced(&contents, 0, (0, 3), &Limits::default()));
                match slices {
                    Ok(_) => read += 1,
                    Err(_) => refused += 1,
                }
            }
        }
        assert!(read > 100 && refused > 100, "{read} {refused}");
    }

    #[test]
    fn a_slice_becomes_shorter_if_its_values_are_long() {
        let text = "x".repeat(6 << 20);
        let words: StringArray = ["a", &text, "b", &text, &text, "c", &text].into_iter().map(Some).collect();
        let rows = RecordBatch::try_from_iter([("w", Arc::new(words) as ArrayRef)]).unwrap();
        let contents = located("a.arrow", file(&rows, Some(CompressionType::ZSTD))).unwrap();
        let found = sliced(&contents, 0, (0, 7), &Limits::default()).unwrap();
        assert_eq!(found.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [4, 3]);
        let long = StringArray::from(vec!["a".to_owned(), "x".repeat(17 << 20)]);
        let rows = RecordBatch::try_from_iter([("w", Arc::new(long) as ArrayRef)]).unwrap();
        let contents = located("a.arrow", file(&rows, None)).unwrap();
        assert_eq!(sliced(&contents, 0, (0, 7), &Limits::default()).unwrap().len(), 2);
        let mut limits = Limits::default();
        limits.header_bytes = 1 << 20;
        let error = sliced(&contents, 0, (0, 7), &limits).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        assert!(error.to_string().contains("column \"w\""), "{error}");
    }

    #[test]
    fn a_slice_reads_only_its_part_of_the_buffers() {
        let rows = RecordBatch::try_from_iter([("n", Arc::new(numbers()) as ArrayRef)]).unwrap();
        let contents = located("a.arrow", file(&rows, None)).unwrap();
        let mut buffer = StoredBuffer::new(&contents.file, 8..contents.file.len());
        buffer.set_ahead(100);
        let bytes = |at: u64, len: usize| {
            Buffer::from(contents.file.read(8 + at, len as u64, &Limits::default()).unwrap())
        };
        for (at, len) in [(0, 10), (9, 20), (90, 20), (100, 300), (40, 1), (399, 2)] {
            assert_eq!(buffer.read(at, len as u64).unwrap(), bytes(at, len), "{at}");
        }
        let error = buffer.read(contents.file.len() - 8, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    }
}
