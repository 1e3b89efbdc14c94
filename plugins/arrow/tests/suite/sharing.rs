//! Tests of files that refer to the same bytes repeatedly, and of valid files that look similar.

use crate::read;
use arrow_ipc::writer::FileWriter;
use arrow_ipc::{root_as_footer, root_as_message};
use std::sync::Arc;
use tensorferry_arrow::Arrow;
use tensorferry_sdk::arrow_array::builder::{
    BinaryViewBuilder, FixedSizeBinaryBuilder, Int32BufferBuilder, StringViewBuilder,
};
use tensorferry_sdk::arrow_array::types::Int32Type;
use tensorferry_sdk::arrow_array::{
    Array, ArrayRef, DictionaryArray, Int32Array, Int64Array, ListArray, ListViewArray, RecordBatch,
    RunArray, StringArray, StructArray,
};
use tensorferry_sdk::arrow_schema::{DataType, Field};
use tensorferry_sdk::{Error, ErrorKind, Format as _, MemoryContext, MemorySource, Options};

const MEBIBYTE: usize = 1 << 20;
/// Number of references to the same mebibyte that together exceed the limit on expanded bytes.
const MANY: usize = 100;

fn file(batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = FileWriter::try_new(Vec::new(), &batches[0].schema()).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.into_inner().unwrap()
}

#[test]
fn metadata_that_rows_do_not_have_is_a_loss() {
    let batch = batch(vec![numbers(0)]);
    for (key, is_lost) in [(Some("author"), true), (None, false)] {
        let mut writer = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        writer.write(&batch).unwrap();
        key.iter().for_each(|key| writer.write_metadata(*key, "x"));
        let source = MemorySource::file("a.arrow", writer.into_inner().unwrap());
        let reader = Arrow.record_reader(&Options::default()).unwrap();
        let mut losses = Vec::new();
        reader.open(Arc::new(source), &mut losses, &MemoryContext::default()).unwrap();
        assert_eq!(losses.iter().any(|loss| loss.why.contains("author")), is_lost, "{losses:?}");
    }
}

fn batch(columns: Vec<ArrayRef>) -> RecordBatch {
    let names = (0..columns.len()).map(|at| at.to_string());
    RecordBatch::try_from_iter_with_nullable(names.zip(columns).map(|(name, column)| (name, column, true)))
        .unwrap()
}

fn numbers(start: i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(start..start + 1000))
}

/// Returns `count` views of the same string of `len` bytes.
fn views(len: usize, count: usize) -> ArrayRef {
    let mut views = StringViewBuilder::new();
    let block = views.append_block("x".repeat(len).into_bytes().into());
    (0..count).for_each(|_| views.try_append_view(block, 0, u32::try_from(len).unwrap()).unwrap());
    Arc::new(views.finish())
}

fn binary_views(count: usize) -> ArrayRef {
    let mut views = BinaryViewBuilder::new();
    let block = views.append_block(vec![7_u8; MEBIBYTE].into());
    (0..count).for_each(|_| views.try_append_view(block, 0, 1 << 20).unwrap());
    Arc::new(views.finish())
}

/// Returns `count` views of the same list of `len` numbers.
fn list_views(len: usize, count: usize) -> ArrayRef {
    let values = Arc::new(Int64Array::from(vec![7; len]));
    let mut sizes = Int32BufferBuilder::new(count);
    sizes.append_n(count, i32::try_from(len).unwrap());
    let mut offsets = Int32BufferBuilder::new(count);
    offsets.append_n(count, 0);
    let field = Arc::new(Field::new_list_field(DataType::Int64, true));
    let (offsets, sizes) = (offsets.finish().into(), sizes.finish().into());
    Arc::new(ListViewArray::try_new(field, offsets, sizes, values, None).unwrap())
}

/// Returns a dictionary array with `count` keys. Every key refers to the first value.
fn keys(values: ArrayRef, count: usize) -> ArrayRef {
    Arc::new(DictionaryArray::<Int32Type>::try_new(Int32Array::from(vec![0; count]), values).unwrap())
}

fn text(len: usize) -> ArrayRef {
    Arc::new(StringArray::from(vec!["x".repeat(len)]))
}

fn fixed(len: usize) -> ArrayRef {
    let mut values = FixedSizeBinaryBuilder::new(i32::try_from(len).unwrap());
    values.append_value(vec![7; len]).unwrap();
    Arc::new(values.finish())
}

fn list(len: usize) -> ArrayRef {
    let values = (0..i32::try_from(len).unwrap()).map(Some);
    Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some(values)]))
}

/// Returns a run of `count` equal values.
fn run(values: &ArrayRef, count: usize) -> ArrayRef {
    let ends = Int32Array::from(vec![i32::try_from(count).unwrap()]);
    Arc::new(RunArray::<Int32Type>::try_new(&ends, values).unwrap())
}

fn in_struct(column: ArrayRef) -> ArrayRef {
    let field = Field::new("a", column.data_type().clone(), true);
    Arc::new(StructArray::from(vec![(Arc::new(field), column)]))
}

/// Replaces `old`, which must occur exactly once, with `new`.
fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let places: Vec<usize> =
        bytes.windows(old.len()).enumerate().filter(|(_, it)| *it == old).map(|it| it.0).collect();
    assert_eq!((places.len(), old.len()), (1, new.len()));
    [&bytes[..places[0]], new, &bytes[places[0] + new.len()..]].concat()
}

/// Returns a file of two batches. The second block starts `shift` bytes after the first.
fn with_blocks(shift: i64) -> Vec<u8> {
    let bytes = file(&[batch(vec![numbers(0)]), batch(vec![numbers(1000)])]);
    let len = bytes.len() - 10;
    let footer_len = u32::from_le_bytes(bytes[len..len + 4].try_into().unwrap()) as usize;
    let footer = root_as_footer(&bytes[len - footer_len..len]).unwrap();
    let blocks = footer.recordBatches().unwrap();
    let old = blocks.bytes();
    let mut second = old[..24].to_vec();
    second[..8].copy_from_slice(&(blocks.get(0).offset() + shift).to_le_bytes());
    replaced(&bytes, old, &[&old[..24], &second].concat())
}

/// Returns a file of two columns. The value buffer of the second column starts `shift` bytes after
/// the first buffer.
fn with_buffers(shift: i64) -> Vec<u8> {
    let bytes = file(&[batch(vec![numbers(0), numbers(1000)])]);
    let start = bytes.windows(4).position(|it| it == [0xff; 4]).unwrap();
    let (_, second) = bytes.split_at(start + 8);
    let next = second.windows(4).position(|it| it == [0xff; 4]).unwrap();
    let message = root_as_message(&second[next + 8..]).unwrap();
    let buffers = message.header_as_record_batch().unwrap().buffers().unwrap();
    let (old, first) = (buffers.bytes(), buffers.get(1));
    let mut new = old.to_vec();
    new[48..56].copy_from_slice(&(first.offset() + shift).to_le_bytes());
    replaced(&bytes, old, &new)
}

fn error_of(bytes: Vec<u8>) -> Option<Error> {
    read("data.arrow", bytes).err()
}

#[test]
fn bytes_that_are_named_again_are_refused() {
    for (name, bytes) in [
        ("a block twice", with_blocks(0)),
        ("blocks that overlap", with_blocks(8)),
        ("columns on one buffer", with_buffers(0)),
        ("columns on buffers that overlap", with_buffers(8)),
    ] {
        let error = error_of(bytes).unwrap_or_else(|| panic!("{name} is read"));
        assert_eq!(error.kind(), ErrorKind::Malformed, "{name}: {error}");
        assert!(error.to_string().contains("share the same bytes"), "{name}: {error}");
    }
    for (name, column) in [
        ("texts", views(MEBIBYTE, MANY)),
        ("bytes", binary_views(MANY)),
        ("lists", list_views(MEBIBYTE / 8, MANY)),
        ("a string in a dictionary", keys(text(MEBIBYTE), MANY)),
        ("wide bytes in a dictionary", keys(fixed(MEBIBYTE), MANY)),
        ("a list in a dictionary", keys(list(MEBIBYTE / 4), MANY)),
        ("a string in a run", run(&text(MEBIBYTE), MANY)),
        ("a string in a dictionary, in a struct", in_struct(keys(text(MEBIBYTE), MANY))),
    ] {
        let bytes = file(&[batch(vec![column])]);
        assert!(bytes.len() < 2 * MEBIBYTE, "{name}: {}", bytes.len());
        let error = error_of(bytes).unwrap_or_else(|| panic!("{name} is read"));
        assert_eq!(error.kind(), ErrorKind::Limit, "{name}: {error}");
        assert!(
            error.details().any(|(_, text)| text.contains("--limit expanded_bytes=N")),
            "{name}: {error}"
        );
    }
}

#[test]
fn what_writers_share_is_read() {
    let none: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>; 1000]));
    let empty: ArrayRef = Arc::new(StringArray::from(vec![""; 1000]));
    for (name, columns) in [
        ("one array in three columns", vec![numbers(0), numbers(0), numbers(0)]),
        ("slices", vec![numbers(0).slice(3, 500), numbers(0).slice(400, 500)]),
        ("columns without bytes", vec![none, empty.clone(), empty]),
        ("a constant dictionary", vec![keys(text(200), 200_000)]),
        ("views of a constant", vec![views(200, 200_000)]),
        ("a constant in a run", vec![run(&numbers(7).slice(0, 1), 1_000_000)]),
        ("views of a short list", vec![list_views(30, 100_000)]),
        ("a dictionary for two columns", vec![keys(text(30), 1000), keys(text(30), 1000)]),
    ] {
        let rows = columns[0].len();
        let read =
            read("data.arrow", file(&[batch(columns)])).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read.iter().map(RecordBatch::num_rows).sum::<usize>(), rows, "{name}");
    }
}
