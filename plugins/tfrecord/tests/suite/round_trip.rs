//! Checks that written rows are read back unchanged, for every codec, with shards and schemas, and
//! for both message types.

use crate::common::{
    Output, all_rows, bytes, column_of_ints, example, floats, frames, ints, open, sequence, threads, write,
};
use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, FixedSizeListArray, Float32Array,
    Float64Array, Int32Array, Int64Array, ListArray, NullArray, RecordBatch, StringArray, StructArray,
    TimestampMicrosecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::sync::Arc;
use tensorferry_proto::{Example, Message, SequenceExample};
use tensorferry_sdk::{ErrorKind, LossKind, MemorySource};

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true)))
        .unwrap()
}

fn read(output: &Output, given: &[(&str, &str)]) -> Vec<RecordBatch> {
    all_rows(&*open(output.source(), given, &threads(2)).unwrap())
}

fn concat(batches: &[RecordBatch]) -> Vec<Vec<Option<String>>> {
    let show =
        |array: &ArrayRef, row: usize| array.is_valid(row).then(|| format!("{:?}", array.slice(row, 1)));
    batches
        .iter()
        .flat_map(|batch| {
            (0..batch.num_rows())
                .map(|row| batch.columns().iter().map(|c| show(c, row)).collect())
                .collect::<Vec<_>>()
        })
        .collect()
}

type Row = (Option<i64>, Option<Vec<f32>>, Option<Vec<u8>>, Option<Vec<Vec<u8>>>);

fn of_rows(rows: &[Row]) -> RecordBatch {
    let ints: Int64Array = rows.iter().map(|row| row.0).collect();
    let floats =
        ListArray::from_iter_primitive::<Float32Type, _, _>(rows.iter().map(|row| {
            row.1.as_ref().map(|values| values.iter().map(|value| Some(*value)).collect::<Vec<_>>())
        }));
    let bytes: BinaryArray = rows.iter().map(|row| row.2.as_deref()).collect();
    let mut lists = ListBuilder::new(arrow_array::builder::BinaryBuilder::new());
    for row in rows {
        if let Some(values) = &row.3 {
            values.iter().for_each(|value| lists.values().append_value(value));
        }
        lists.append(row.3.is_some());
    }
    batch(vec![
        ("bytes", Arc::new(bytes)),
        ("floats", Arc::new(floats)),
        ("ints", Arc::new(ints)),
        ("lists", Arc::new(lists.finish())),
    ])
}

const SCHEMA: &str = r#"{"columns": [{"name": "bytes", "type": "binary"}, {"name": "floats", "type": "float32", "shape": [null]},
    {"name": "ints", "type": "int64"}, {"name": "lists", "type": "bytes", "shape": [null]}]}"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_come_back_through_every_codec(
        pieces in vec(vec((option::of(any::<i64>()), option::of(vec(-1e30_f32..1e30, 0..5)), option::of(vec(any::<u8>(), 0..300)), option::of(vec(vec(any::<u8>(), 0..9), 0..4))), 1..20), 1..4),
        codec in prop::sample::select(vec!["none", "gzip", "zlib", "snappy"]),
        level in prop::sample::select(vec!["0", "1", "6", "9"]),
    ) {
        let batches: Vec<RecordBatch> = pieces.iter().map(|rows| of_rows(rows)).collect();
        let output = write(&batches, &[("compression", codec), ("level", level)], &threads(1)).unwrap();
        prop_assert!(output.losses.is_empty());
        let mut context = threads(2);
        context.inner.sources.insert("s.json".into(), Arc::new(MemorySource::file("s.json", SCHEMA.as_bytes())));
        let set = open(output.source(), &[("schema", "s.json")], &context).unwrap();
        prop_assert_eq!(concat(&all_rows(&*set)), concat(&batches));
    }
}

#[test]
fn shards_are_one_input() {
    let batches: Vec<RecordBatch> =
        (0..6).map(|n| batch(vec![("n", Arc::new(Int64Array::from(vec![n; 10])))])).collect();
    let output = write(&batches, &[("shards", "3"), ("compression", "gzip")], &threads(1)).unwrap();
    let names: Vec<&String> = output.files.keys().collect();
    assert_eq!(
        names,
        ["f.tfrecord-00000-of-00003", "f.tfrecord-00001-of-00003", "f.tfrecord-00002-of-00003"]
    );
    // The pieces are assigned to the shards in round-robin order.
    let expected: Vec<i64> = [0, 3, 1, 4, 2, 5].iter().flat_map(|n| vec![*n; 10]).collect();
    assert_eq!(column_of_ints(&read(&output, &[]), "n"), expected);
}

#[test]
fn nothing_is_a_file_too() {
    for codec in ["none", "gzip", "zlib", "snappy"] {
        let none = batch(vec![("n", Arc::new(Int64Array::from(Vec::<i64>::new())))]);
        let output = write(std::slice::from_ref(&none), &[("compression", codec)], &threads(1)).unwrap();
        assert!(read(&output, &[]).is_empty(), "{codec}");
    }
}

/// Returns the message that the writer produces for a batch with a single row.
fn written<M: Message + Default>(
    batch: &RecordBatch,
    given: &[(&str, &str)],
) -> (M, Vec<(LossKind, String)>) {
    let output = write(std::slice::from_ref(batch), given, &threads(1)).unwrap();
    let file = &output.files["f.tfrecord"];
    let losses = output.losses.iter().map(|loss| (loss.kind, loss.what.clone())).collect();
    (M::decode(&file[12..file.len() - 4]).unwrap(), losses)
}

#[test]
fn every_type_has_its_list_or_is_told_of() {
    let pair = StructArray::from(vec![
        (Arc::new(Field::new("x", DataType::Int32, true)), Arc::new(Int32Array::from(vec![7])) as ArrayRef),
        (Arc::new(Field::new("y", DataType::Utf8, true)), Arc::new(StringArray::from(vec!["z"])) as ArrayRef),
    ]);
    let fixed = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>([Some([1.0, 2.0].map(Some))], 2);
    let item = Arc::new(Field::new("item", fixed.data_type().clone(), true));
    let nested = FixedSizeListArray::new(item, 1, Arc::new(fixed.clone()), None);
    let with_null = ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1), None, Some(3)])]);
    let row = batch(vec![
        ("bool", Arc::new(BooleanArray::from(vec![true]))),
        ("i32", Arc::new(Int32Array::from(vec![-5]))),
        ("u64", Arc::new(UInt64Array::from(vec![1 << 62]))),
        ("exact", Arc::new(Float64Array::from(vec![0.5]))),
        ("narrowed", Arc::new(Float64Array::from(vec![0.1]))),
        ("large", Arc::new(Float64Array::from(vec![1e300]))),
        ("infinite", Arc::new(Float64Array::from(vec![f64::INFINITY]))),
        ("money", Arc::new(Decimal128Array::from(vec![12345]).with_precision_and_scale(10, 2).unwrap())),
        ("time", Arc::new(TimestampMicrosecondArray::from(vec![1_000_000]))),
        ("text", Arc::new(StringArray::from(vec!["grün"]))),
        ("nested", Arc::new(nested)),
        ("fixed", Arc::new(fixed)),
        ("with_null", Arc::new(with_null)),
        ("pair", Arc::new(pair)),
        ("nothing", Arc::new(NullArray::new(1))),
        ("missing", Arc::new(Int64Array::from(vec![None]))),
    ]);
    let (message, losses): (Example, _) = written(&row, &[]);
    let expected = example(&[
        ("bool", ints(&[1])),
        ("i32", ints(&[-5])),
        ("u64", ints(&[1 << 62])),
        ("exact", floats(&[0.5])),
        ("narrowed", floats(&[0.1])),
        ("large", floats(&[f32::INFINITY])),
        ("infinite", floats(&[f32::INFINITY])),
        ("money", floats(&[123.45])),
        ("time", ints(&[1_000_000])),
        ("text", bytes(&["grün".as_bytes()])),
        ("nested", floats(&[1.0, 2.0])),
        ("fixed", floats(&[1.0, 2.0])),
        ("with_null", ints(&[1, 3])),
        ("pair.x", ints(&[7])),
        ("pair.y", bytes(&[b"z"])),
    ]);
    assert_eq!(message, expected);
    let mut losses = losses;
    losses.sort();
    let expected = [
        (LossKind::Precision, "money"),
        (LossKind::Precision, "narrowed"),
        (LossKind::Name, "pair"),
        (LossKind::Metadata, "money"),
        (LossKind::Metadata, "nested"),
        (LossKind::Metadata, "time"),
        (LossKind::Record, "large"),
        (LossKind::Record, "with_null"),
    ];
    assert_eq!(losses, expected.map(|(kind, what)| (kind, what.to_owned())));
    let too_big = batch(vec![("u64", Arc::new(UInt64Array::from(vec![u64::MAX])))]);
    let error = write(&[too_big], &[], &threads(1)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("u64"), "{error}");
}

#[test]
fn lists_within_lists_are_sequences_if_asked_for() {
    let mut lists = ListBuilder::new(ListBuilder::new(Int64Builder::new()));
    lists.values().values().append_slice(&[1, 2]);
    lists.values().append(true);
    lists.values().append(false);
    lists.values().append(true);
    lists.append(true);
    let row = batch(vec![("id", Arc::new(Int64Array::from(vec![1]))), ("steps", Arc::new(lists.finish()))]);
    let (message, losses): (SequenceExample, _) = written(&row, &[("message", "sequence")]);
    let steps = vec![ints(&[1, 2]), tensorferry_proto::Feature { kind: None }, ints(&[])];
    assert_eq!(message, sequence(&[("id", ints(&[1]))], &[("steps", steps)]));
    assert!(losses.is_empty());
    let (message, losses): (Example, _) = written(&row, &[]);
    assert_eq!(message, example(&[("id", ints(&[1])), ("steps", ints(&[1, 2]))]));
    assert_eq!(losses[0], (LossKind::Record, "steps".to_owned()));
    // The records were read as SequenceExamples, so they are written as SequenceExamples.
    let output = write(std::slice::from_ref(&row), &[("message", "sequence")], &threads(1)).unwrap();
    let back = read(&output, &[]).remove(0);
    let again = write(&[back], &[], &threads(1)).unwrap();
    assert_eq!(again.files, output.files);
}

#[test]
fn records_of_bytes_stay_what_they_are() {
    let bytes = frames(&[&b"\xff\xfe"[..], b"", b"text"]);
    let set = open(MemorySource::file("f.tfrecord", bytes.clone()), &[], &threads(1)).unwrap();
    assert_eq!(set.schema().field(0).name(), "record");
    let output = write(&all_rows(&*set), &[], &threads(1)).unwrap();
    assert_eq!(output.files["f.tfrecord"], bytes);
}

#[test]
fn a_schema_chooses_and_holds_to_its_shapes() {
    let mut context = threads(1);
    let text = r#"{"columns": [{"name": "v", "type": "float32", "shape": [2], "key": "vector"}]}"#;
    context.inner.sources.insert("s".into(), Arc::new(MemorySource::file("s", text.as_bytes())));
    let vectors = |rows: Vec<Vec<f32>>| {
        let lists = rows.into_iter().map(|row| Some(row.into_iter().map(Some).collect::<Vec<_>>()));
        let lists = ListArray::from_iter_primitive::<Float32Type, _, _>(lists);
        let n = Float32Array::from(vec![0.0; lists.len()]);
        batch(vec![("n", Arc::new(n)), ("v", Arc::new(lists))])
    };
    let output = write(&[vectors(vec![vec![1.0, 2.0]])], &[("schema", "s")], &context).unwrap();
    let file = &output.files["f.tfrecord"];
    let expected = example(&[("vector", floats(&[1.0, 2.0]))]);
    assert_eq!(Example::decode(&file[12..file.len() - 4]).unwrap(), expected);
    // The reader uses the shape in the schema.
    let set = open(output.source(), &[("schema", "s")], &context).unwrap();
    let list = DataType::FixedSizeList(Arc::new(Field::new_list_field(DataType::Float32, true)), 2);
    assert_eq!(set.schema().field(0).data_type(), &list);
    assert_eq!(all_rows(&*set)[0].num_rows(), 1);
    let error = write(&[vectors(vec![vec![1.0]])], &[("schema", "s")], &context).err().unwrap();
    assert!(error.to_string().contains("expected 2 values, found 1 values"), "{error}");
    let other = batch(vec![("v", Arc::new(Int64Array::from(vec![1])))]);
    assert_eq!(write(&[other], &[("schema", "s")], &context).err().unwrap().kind(), ErrorKind::Usage);
}
