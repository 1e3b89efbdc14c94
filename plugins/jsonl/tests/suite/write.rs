//! Tests of the writer, which converts rows to lines, and of reading the lines back.

use crate::common::{lines, read, write};
use proptest::prelude::*;
use std::io::Read as _;
use std::sync::Arc;
use tensorferry_sdk::arrow_array::builder::{Int64Builder, ListBuilder, MapBuilder, StringBuilder};
use tensorferry_sdk::arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float32Array, Float64Array, Int64Array,
    StringArray, StructArray, TimestampMillisecondArray, UInt64Array, UnionArray, new_null_array,
};
use tensorferry_sdk::arrow_schema::{DataType, Field};
use tensorferry_sdk::{ErrorKind, LossKind, Severity};
use tensorferry_test_kit::rows::rows;

#[test]
fn what_json_cannot_say_is_said_in_strings() {
    let written = lines(&rows(vec![
        ("bin", Arc::new(BinaryArray::from(vec![Some(&b"\xff\0a"[..]), None, Some(b"")])) as ArrayRef),
        ("f32", Arc::new(Float32Array::from(vec![0.1, f32::NAN, f32::INFINITY]))),
        ("f64", Arc::new(Float64Array::from(vec![Some(1e300), Some(f64::NEG_INFINITY), None]))),
        ("time", Arc::new(TimestampMillisecondArray::from(vec![0, 1, 2]).with_timezone("UTC"))),
        ("u64", Arc::new(UInt64Array::from(vec![u64::MAX, 0, 1]))),
        ("dec", Arc::new(Decimal128Array::from(vec![-123, 0, 5]).with_precision_and_scale(10, 2).unwrap())),
        ("str", Arc::new(StringArray::from(vec!["\"\n", "ä", ""]))),
    ]));
    let expected = [
        r#"{"bin":"/wBh","f32":0.1,"f64":1e+300,"time":"1970-01-01T00:00:00Z","u64":18446744073709551615,"dec":-1.23,"str":"\"\n"}"#,
        r#"{"bin":null,"f32":"NaN","f64":"-Infinity","time":"1970-01-01T00:00:00.001Z","u64":0,"dec":0.00,"str":"ä"}"#,
        r#"{"bin":"","f32":"Infinity","f64":null,"time":"1970-01-01T00:00:00.002Z","u64":1,"dec":0.05,"str":""}"#,
    ];
    assert_eq!(written.lines().collect::<Vec<_>>(), expected);
}

/// Tests that characters are escaped at any place of a text, and that a text that is written in
/// several blocks is the same as in one block.
#[test]
fn texts_are_escaped_in_each_block() {
    let texts: Vec<_> = (0..20_000)
        .map(|row| {
            let special = ['\0', '\u{1f}', ' ', '"', '\\', '\u{7f}', 'ä'][row % 7];
            format!("{}{special}{}", "a".repeat(row % 20), "b".repeat(row % 23))
        })
        .collect();
    let expected: String =
        texts.iter().map(|text| format!("{{\"a\":{}}}\n", serde_json::to_string(text).unwrap())).collect();
    let batch = rows(vec![("a", Arc::new(StringArray::from(texts)) as ArrayRef)]);
    assert!(lines(&batch) == expected);
    let (zstd, _) = write(&[batch], "out.jsonl.zst", &[]).unwrap();
    assert!(zstd::stream::decode_all(&zstd[..]).unwrap() == expected.as_bytes());
}

#[test]
fn what_is_lost_is_said() {
    let field = |name: &str| Field::new(name, DataType::Int64, name == "value");
    let pairs = DataType::Struct([field("key"), field("value")].into_iter().collect());
    // JSON objects can have only strings as keys.
    let map = DataType::Map(Arc::new(Field::new("entries", pairs, false)), false);
    let batch = rows(vec![
        ("bin", Arc::new(BinaryArray::from(vec![&b"a"[..]])) as ArrayRef),
        ("map", new_null_array(&map, 1)),
        ("n", Arc::new(Int64Array::from(vec![1]))),
    ]);
    let (bytes, losses) = write(std::slice::from_ref(&batch), "out.jsonl", &[]).unwrap();
    assert_eq!(bytes, b"{\"bin\":\"YQ==\",\"n\":1}\n");
    let whats: Vec<_> = losses.iter().map(|loss| (loss.kind, loss.what.as_str())).collect();
    assert_eq!(whats, [(LossKind::Metadata, "bin"), (LossKind::Record, "map")]);
    let nothing = batch.project(&[1]).unwrap();
    assert_eq!(write(&[nothing], "out.jsonl", &[]).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn what_values_lose_is_said_however_deep_they_lie() {
    let losses = |name: &str, column: ArrayRef| {
        let (_, losses) = write(&[rows(vec![(name, column)])], "out.jsonl", &[]).unwrap();
        losses.into_iter().map(|loss| (loss.kind, loss.what, loss.why, loss.severity)).collect::<Vec<_>>()
    };
    let floats = |values: [f64; 2]| Arc::new(Float64Array::from(values.to_vec())) as ArrayRef;
    let inside = |values: ArrayRef| {
        let field = Field::new("v", values.data_type().clone(), true);
        Arc::new(StructArray::try_new(vec![field].into(), vec![values], None).unwrap()) as ArrayRef
    };
    assert_eq!(losses("plain", inside(floats([1.0, 2.0]))), []);
    let of_numbers = losses("some", floats([1.5, f64::NAN]));
    assert!(of_numbers[0].2.contains("the column also has numbers"), "{of_numbers:?}");
    assert_eq!(of_numbers[0].3, Severity::Note);
    let deep = losses("deep", inside(floats([f64::NAN, f64::INFINITY])));
    assert_eq!((deep[0].0, deep[0].1.as_str()), (LossKind::Metadata, "deep"));
    assert!(deep[0].2.contains("unless the schema sets another type"), "{deep:?}");
    let decimals = |scale| Decimal128Array::from(vec![1]).with_precision_and_scale(30, scale).unwrap();
    assert!(losses("price", inside(Arc::new(decimals(2))))[0].2.contains("JSON has no decimals"));
    assert_eq!(losses("whole", inside(Arc::new(decimals(0)))), []);

    let maps = |keys: [&str; 2]| {
        let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
        for (number, key) in (1..).zip(keys) {
            maps.keys().append_value(key);
            maps.values().append_value(number);
        }
        maps.append(true).unwrap();
        inside(Arc::new(maps.finish()))
    };
    let twice = losses("m", maps(["a", "a"]));
    assert_eq!(twice.iter().map(|loss| loss.0).collect::<Vec<_>>(), [LossKind::Metadata, LossKind::Record]);
    assert!(twice[0].2.contains("JSON has no maps"), "{twice:?}");
    assert_eq!(losses("m", maps(["a", "b"])).len(), 1);
}

#[test]
fn a_union_is_its_values() {
    let fields = [(0, DataType::Int64), (5, DataType::Binary)];
    let fields = fields.map(|(id, data_type)| (id, Arc::new(Field::new("of", data_type, true))));
    let children: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![Some(1), None])),
        Arc::new(BinaryArray::from(vec![&b"a"[..], b"b"])),
    ];
    let union = UnionArray::try_new(
        fields.into_iter().collect(),
        vec![5, 0, 0, 5].into(),
        Some(vec![0, 1, 0, 1].into()),
        children,
    );
    let (bytes, losses) =
        write(&[rows(vec![("u", Arc::new(union.unwrap()) as ArrayRef)])], "out.jsonl", &[]).unwrap();
    let text = "{\"u\":\"YQ==\"}\n{\"u\":null}\n{\"u\":1}\n{\"u\":\"Yg==\"}\n";
    assert_eq!(String::from_utf8(bytes).unwrap(), text);
    let whys: Vec<_> = losses.iter().map(|loss| loss.why.split(':').next().unwrap()).collect();
    assert_eq!(whys, ["JSON has no bytes", "JSON has no unions"]);
}

#[test]
fn nulls_are_written_or_left_out() {
    let batch = rows(vec![
        ("a", Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef),
        ("b", Arc::new(BooleanArray::from(vec![None, Some(true)]))),
    ]);
    let (kept, _) = write(std::slice::from_ref(&batch), "out.jsonl", &[]).unwrap();
    assert_eq!(kept, b"{\"a\":1,\"b\":null}\n{\"a\":null,\"b\":true}\n");
    let (left_out, _) = write(&[batch], "out.jsonl", &[("nulls", "false")]).unwrap();
    assert_eq!(left_out, b"{\"a\":1}\n{\"b\":true}\n");
}

#[test]
fn pieces_of_a_compressed_file_are_one_file() {
    let batch = |n| rows(vec![("a", Arc::new(Int64Array::from(vec![n])) as ArrayRef)]);
    let (gzip, _) = write(&[batch(1), batch(2)], "out.jsonl.gz", &[]).unwrap();
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(&gzip[..]).read_to_string(&mut text).unwrap();
    assert_eq!(text, "{\"a\":1}\n{\"a\":2}\n");
    let (zstd, _) =
        write(&[batch(1), batch(2)], "out.jsonl", &[("compression", "zstd"), ("level", "19")]).unwrap();
    assert_eq!(zstd::stream::decode_all(&zstd[..]).unwrap(), text.as_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_come_back(
        values in prop::collection::vec(
            (any::<i64>(), any::<f64>(), prop::option::of(any::<String>()), prop::collection::vec(any::<i64>(), 0..4)),
            1..20,
        ),
    ) {
        let mut lists = ListBuilder::new(Int64Builder::new());
        for (_, _, _, list) in &values {
            lists.values().append_slice(list);
            lists.append(true);
        }
        // The last value of each column is unambiguous, so that the column's type is inferred
        // correctly.
        lists.values().append_value(1);
        lists.append(true);
        let floats = values.iter().map(|(_, float, _, _)| *float).chain([0.5]);
        let texts = values.iter().map(|(_, _, text, _)| text.clone()).chain([Some("x".to_owned())]);
        let batch = rows(vec![
            ("i", Arc::new(Int64Array::from_iter_values(values.iter().map(|v| v.0).chain([0]))) as ArrayRef),
            ("f", Arc::new(Float64Array::from_iter_values(floats))),
            ("s", Arc::new(StringArray::from_iter(texts))),
            ("l", Arc::new(lists.finish())),
        ]);
        prop_assert_eq!(read(lines(&batch)).unwrap(), batch);
    }
}
