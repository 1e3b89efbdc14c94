//! Tests of the writer, which converts rows to lines, and of reading the lines back.

use crate::common::{read, write};
use proptest::prelude::*;
use std::io::Read as _;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::builder::{Int64Builder, ListBuilder, MapBuilder, StringBuilder};
use tensorferry_sdk::arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DurationSecondArray, Float32Array,
    Float64Array, Int64Array, StringArray, StructArray, TimestampMillisecondArray, UnionArray,
};
use tensorferry_sdk::arrow_schema::{DataType, Field};
use tensorferry_sdk::{ErrorKind, LossKind};
use tensorferry_test_kit::rows::rows;

#[test]
fn values_are_in_quotes_where_they_take_them() {
    let mut lists = ListBuilder::new(Int64Builder::new());
    lists.append_value([Some(1), None]);
    lists.append_null();
    let decimal = Decimal128Array::from(vec![-12_345, 1]).with_precision_and_scale(10, 2).unwrap();
    let batch = rows(vec![
        ("id", Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef),
        ("a,\"b\"", Arc::new(StringArray::from(vec![Some("x,\"y\"\n"), Some("")]))),
        ("f", Arc::new(Float32Array::from(vec![0.1, f32::NAN]))),
        ("t", Arc::new(BooleanArray::from(vec![true, false]))),
        ("d", Arc::new(Date32Array::from(vec![0, -1]))),
        ("at", Arc::new(TimestampMillisecondArray::from(vec![1, -1]).with_timezone("Europe/Paris"))),
        ("price", Arc::new(decimal)),
        ("raw", Arc::new(BinaryArray::from(vec![&b"\xff"[..], b""]))),
        ("list", Arc::new(lists.finish())),
    ]);
    let (text, losses) = write(std::slice::from_ref(&batch), "out.csv", &[]).unwrap();
    let expected = "id,\"a,\"\"b\"\"\",f,t,d,at,price,raw,list\n\
        1,\"x,\"\"y\"\"\n\",0.1,true,1970-01-01,1970-01-01T00:00:00.001Z,-123.45,/w==,\"[1,null]\"\n\
        ,\"\",NaN,false,1969-12-31,1969-12-31T23:59:59.999Z,0.01,\"\",\n";
    assert_eq!(String::from_utf8(text).unwrap(), expected);
    let whats: Vec<_> = losses.iter().map(|loss| (loss.kind, loss.what.as_str())).collect();
    assert_eq!(whats, ["at", "price", "raw", "list"].map(|what| (LossKind::Metadata, what)));
    let (text, _) =
        write(&[batch.project(&[0, 3]).unwrap()], "out.tsv", &[("nulls", "NA"), ("header", "false")])
            .unwrap();
    assert_eq!(text, b"1\ttrue\nNA\tfalse\n");
}

/// Tests that numbers and times are quoted if a delimiter, a quote or the text for a null makes it
/// necessary.
#[test]
fn numbers_are_in_quotes_where_they_take_them() {
    let batch = rows(vec![
        ("a", Arc::new(Int64Array::from(vec![Some(-12), None])) as ArrayRef),
        ("b", Arc::new(Float64Array::from(vec![0.5, 1e300]))),
        ("c", Arc::new(TimestampMillisecondArray::from(vec![0, 1]))),
        ("d", Arc::new(BinaryArray::from(vec![&b"\xff"[..], b""]))),
        ("e", Arc::new(BooleanArray::from(vec![true, false]))),
    ]);
    for (options, expected) in [
        (
            &[("nulls", "-12")][..],
            "\"-12\",0.5,1970-01-01T00:00:00,/w==,true\n-12,1e300,1970-01-01T00:00:00.001,\"\",false\n",
        ),
        (
            &[("nulls", "true")],
            "-12,0.5,1970-01-01T00:00:00,/w==,\"true\"\ntrue,1e300,1970-01-01T00:00:00.001,\"\",false\n",
        ),
        (
            &[("delimiter", ".")],
            "-12.\"0.5\".1970-01-01T00:00:00./w==.true\n.1e300.\"1970-01-01T00:00:00.001\".\"\".false\n",
        ),
        (
            &[("delimiter", "e")],
            "-12e0.5e1970-01-01T00:00:00e/w==e\"true\"\ne\"1e300\"e1970-01-01T00:00:00.001e\"\"e\"false\"\n",
        ),
        (
            &[("quote", "-")],
            "---12-,0.5,-1970--01--01T00:00:00-,/w==,true\n,1e300,-1970--01--01T00:00:00.001-,--,false\n",
        ),
        (
            &[("quote", "=")],
            "-12,0.5,1970-01-01T00:00:00,=/w=====,true\n,1e300,1970-01-01T00:00:00.001,==,false\n",
        ),
    ] {
        let options: Vec<_> = options.iter().copied().chain([("header", "false")]).collect();
        let (text, _) = write(std::slice::from_ref(&batch), "out.csv", &options).unwrap();
        assert_eq!(String::from_utf8(text).unwrap(), expected, "{options:?}");
    }
}

/// Tests that a text that is written in several blocks is the same as in one block.
#[test]
fn long_pieces_are_written_whole() {
    let batch = rows(vec![
        ("a", Arc::new(Int64Array::from_iter_values(0..100_000)) as ArrayRef),
        ("b", Arc::new(StringArray::from_iter_values((0..100_000).map(|row| format!("row {row}"))))),
    ]);
    let expected =
        "a,b\n".to_owned() + &(0..100_000).map(|row| format!("{row},row {row}\n")).collect::<String>();
    let (text, _) = write(std::slice::from_ref(&batch), "out.csv", &[]).unwrap();
    assert!(text == expected.as_bytes());
    let (zstd, _) = write(&[batch], "out.csv.zst", &[]).unwrap();
    assert!(zstd::stream::decode_all(&zstd[..]).unwrap() == text);
}

#[test]
fn texts_that_look_like_numbers_are_a_loss() {
    let texts = |of: &[&str]| rows(vec![("a", Arc::new(StringArray::from_iter_values(of)) as ArrayRef)]);
    for (of, is_lost) in
        [(&["1", "2"][..], true), (&["1", "x"], false), (&["007"], false), (&["", "true"], true)]
    {
        let (_, losses) = write(&[texts(of)], "out.csv", &[]).unwrap();
        assert_eq!(!losses.is_empty(), is_lost, "{of:?}: {losses:?}");
    }
    // If a null is read back as an empty string, the loss is of kind `Record`.
    let columns: [(ArrayRef, bool); 5] = [
        (Arc::new(StringArray::from(vec![Some("x"), None])), true),
        (Arc::new(DurationSecondArray::from(vec![Some(1), None])), true),
        (Arc::new(Int64Array::from(vec![Some(1), None])), false),
        (Arc::new(Date32Array::from(vec![Some(1), None])), false),
        // A date in the year 10,183.
        (Arc::new(Date32Array::from(vec![Some(3_000_000), None])), true),
    ];
    for (column, is_lost) in columns {
        let (_, losses) = write(&[rows(vec![("a", column)])], "out.csv", &[]).unwrap();
        let lost = losses.iter().any(|loss| loss.what == "a" && loss.kind == LossKind::Record);
        assert_eq!(lost, is_lost, "{losses:?}");
    }
    let error = write(&[texts(&["a,b"])], "out.csv", &[("quote", "none")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

/// Tests that a column that is not written is not also reported as changed.
#[test]
fn a_column_that_is_left_out_is_one_loss() {
    let field = Arc::new(Field::new("n", DataType::Int64, true));
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let union =
        UnionArray::try_new([(0, field)].into_iter().collect(), vec![0].into(), None, vec![numbers.clone()]);
    let batch = rows(vec![("a", numbers), ("u", Arc::new(union.unwrap()))]);
    let (text, losses) = write(&[batch], "out.csv", &[]).unwrap();
    assert_eq!(text, b"a\n1\n");
    assert_eq!(losses.iter().map(|loss| loss.kind).collect::<Vec<_>>(), [LossKind::Record], "{losses:?}");
}

#[test]
fn a_key_that_a_map_or_a_struct_has_twice_is_a_loss() {
    for (name, is_lost) in [("a", true), ("b", false)] {
        let field = |name: &str| Arc::new(Field::new(name, DataType::Int64, true));
        let values: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let fields = vec![(field("a"), values.clone()), (field(name), values)];
        let structs: ArrayRef = Arc::new(StructArray::from(fields));
        let (_, losses) = write(&[rows(vec![("s", structs)])], "out.csv", &[]).unwrap();
        assert_eq!(losses.iter().any(|loss| loss.kind == LossKind::Record), is_lost, "{losses:?}");
    }
    for (keys, is_lost) in [(["a", "a"], true), (["a", "b"], false)] {
        let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
        for key in keys {
            maps.keys().append_value(key);
            maps.values().append_value(1);
        }
        maps.append(true).unwrap();
        let (_, losses) =
            write(&[rows(vec![("m", Arc::new(maps.finish()) as ArrayRef)])], "out.csv", &[]).unwrap();
        assert_eq!(losses.iter().any(|loss| loss.kind == LossKind::Record), is_lost, "{losses:?}");
    }
}

#[test]
fn pieces_of_a_compressed_file_are_one_file() {
    let batch = |n| rows(vec![("a", Arc::new(Int64Array::from(vec![n])) as ArrayRef)]);
    let (gzip, _) = write(&[batch(1), batch(2)], "out.csv.gz", &[]).unwrap();
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(&gzip[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, "a\n1\n2\n");
    let (zstd, _) = write(&[batch(1), batch(2)], "out.csv", &[("compression", "zstd")]).unwrap();
    assert_eq!(zstd::stream::decode_all(&zstd[..]).unwrap(), text.as_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_come_back(
        values in prop::collection::vec(
            (prop::option::of(any::<i64>()), any::<f64>(), prop::option::of("[\u{0}-\u{7f}\u{e4}\u{1F980}]{0,6}"), prop::option::of(any::<bool>())),
            1..20,
        ),
    ) {
        // The last value of each column is unambiguous, so that the column's type is inferred
        // correctly.
        let batch = rows(vec![
            ("i", Arc::new(Int64Array::from_iter(values.iter().map(|v| v.0).chain([Some(-1)]))) as ArrayRef),
            ("f", Arc::new(Float64Array::from_iter_values(values.iter().map(|v| v.1).chain([0.5])))),
            ("s", Arc::new(StringArray::from_iter(values.iter().map(|v| v.2.clone()).chain([Some("x".to_owned())])))),
            ("b", Arc::new(BooleanArray::from_iter(values.iter().map(|v| v.3).chain([Some(true)])))),
        ]);
        let (text, losses) = write(std::slice::from_ref(&batch), "out.csv", &[]).unwrap();
        prop_assert!(losses.is_empty());
        prop_assert_eq!(read(text).unwrap(), batch);
    }
}
