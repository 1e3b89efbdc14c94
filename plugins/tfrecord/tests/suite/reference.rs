//! Compares decoded records with the output of prost, for messages in all valid forms.

use crate::common::{
    self, all_rows, bytes, column_of_ints, count_rows, example, file, floats, frames, ints, lines, open_file,
    rows, sequence,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tensorferry_proto::feature::Kind;
use tensorferry_proto::{Example, Feature, Message};
use tensorferry_sdk::records::Batches;

/// Returns a feature of this kind. Callers derive the kind from the first letter of the feature's
/// name, so that each name has only one kind.
fn feature_of(kind: u8) -> BoxedStrategy<Feature> {
    match kind {
        0 => vec(any::<i64>(), 0..4).prop_map(|values| ints(&values)).boxed(),
        1 => vec(any::<u32>().prop_map(f32::from_bits), 0..4).prop_map(|values| floats(&values)).boxed(),
        2 => vec(vec(any::<u8>(), 0..200), 0..4)
            .prop_map(|values| bytes(&values.iter().map(Vec::as_slice).collect::<Vec<_>>()))
            .boxed(),
        _ => Just(Feature { kind: None }).boxed(),
    }
}

/// Works like [`feature_of`], but uses floats with few digits. All JSON readers parse such floats
/// to the same value.
fn shown_feature_of(kind: u8) -> BoxedStrategy<Feature> {
    let few = (-1000_i16..1000).prop_map(|n| f32::from(n) / 8.0);
    let special = prop::sample::select(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0]);
    match kind {
        1 => vec(prop_oneof![few, special], 0..4).prop_map(|values| floats(&values)).boxed(),
        _ => feature_of(kind),
    }
}

fn examples() -> impl Strategy<Value = Vec<Example>> {
    let features = (0_u8..4).prop_flat_map(|kind| {
        ("[a-d]", feature_of(kind)).prop_map(move |(name, feature)| (format!("{kind}{name}"), feature))
    });
    let features = vec(features, 0..6);
    vec(
        features.prop_map(|features| {
            let features: Vec<(&str, Feature)> =
                features.iter().map(|(name, f)| (name.as_str(), f.clone())).collect();
            example(&features)
        }),
        1..20,
    )
}

/// Returns the feature of a row in a batch.
fn of_row(batch: &RecordBatch, name: &str, row: usize) -> Option<Feature> {
    let column = batch.column_by_name(name)?;
    if column.is_null(row) || column.data_type().is_null() {
        return None;
    }
    let array = match column.as_list_opt::<i32>() {
        Some(list) => list.value(row),
        None => column.slice(row, 1),
    };
    Some(match name.as_bytes()[0] {
        b'0' => ints(array.as_primitive::<Int64Type>().values()),
        b'1' => floats(array.as_primitive::<Float32Type>().values()),
        _ => bytes(&array.as_binary::<i32>().iter().map(|value| value.unwrap()).collect::<Vec<_>>()),
    })
}

proptest! {
    #[test]
    fn every_value_is_where_it_was(examples in examples(), threads in 1_usize..3) {
        let set = common::open(
            tensorferry_sdk::MemorySource::file("f.tfrecord", file(&examples)), &[("decode", "example")], &common::threads(threads),
        ).unwrap();
        let batches = all_rows(&*set);
        let batch = &batches[0];
        prop_assert_eq!(batch.num_rows(), examples.len());
        for (row, example) in examples.iter().enumerate() {
            let features = &example.features.as_ref().unwrap().feature;
            for (name, feature) in features {
                // The test compares encoded bytes, because NaN is not equal to itself.
                let expected = feature.kind.as_ref().map(|_| feature.encode_to_vec());
                prop_assert_eq!(of_row(batch, name, row).map(|f| f.encode_to_vec()), expected, "{} {}", row, name);
            }
            for field in batch.schema().fields() {
                let is_there = features.contains_key(field.name());
                prop_assert!(is_there || of_row(batch, field.name(), row).is_none());
            }
        }
    }

    #[test]
    fn the_json_is_protobufs(features in btree_map("\\PC{0,8}", (0_u8..4).prop_flat_map(shown_feature_of), 0..5)) {
        let features: Vec<(&str, Feature)> = features.iter().map(|(name, f)| (name.as_str(), f.clone())).collect();
        let example = example(&features);
        let set = open_file(&file(std::slice::from_ref(&example)), &[("decode", "example")]).unwrap();
        let (lines, error) = lines(&*set);
        prop_assert!(error.is_none());
        prop_assert_eq!(&lines[0], &mapped(&example));
    }
}

/// An independent implementation of the JSON mapping.
fn mapped(example: &Example) -> Value {
    let features = &example.features.as_ref().unwrap().feature;
    let value = |feature: &Feature| match &feature.kind {
        None => json!({}),
        Some(Kind::Int64List(list)) => {
            of_list("int64List", &list.value.iter().map(|v| v.to_string().into()).collect::<Vec<_>>())
        }
        Some(Kind::BytesList(list)) => {
            of_list("bytesList", &list.value.iter().map(|v| STANDARD.encode(v).into()).collect::<Vec<_>>())
        }
        Some(Kind::FloatList(list)) => {
            of_list("floatList", &list.value.iter().map(|v| float(*v)).collect::<Vec<_>>())
        }
    };
    let map: BTreeMap<&String, Value> =
        features.iter().map(|(name, feature)| (name, value(feature))).collect();
    if map.is_empty() { json!({"features": {}}) } else { json!({"features": {"feature": map}}) }
}

fn of_list(name: &str, values: &[Value]) -> Value {
    if values.is_empty() { json!({name: {}}) } else { json!({name: {"value": values}}) }
}

fn float(value: f32) -> Value {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return (if value > 0.0 { "Infinity" } else { "-Infinity" }).into();
    }
    // Like Python, this code tries six digits first, and adds digits until the text parses back to
    // the same float.
    let digits =
        (5..9).map(|digits| format!("{value:.digits$e}")).find(|text| text.parse() == Ok(value)).unwrap();
    json!(digits.parse::<f64>().unwrap())
}

/// Returns a field that consists of a tag, a length and these bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

/// Returns valid Examples in unusual forms that no known program writes.
fn odd_examples() -> Vec<Vec<u8>> {
    let entry = |key: &[u8], feature: &[u8]| field(1, &[field(1, key), field(2, feature)].concat());
    let packed = field(3, &field(1, &[1, 2, 3]));
    let unpacked = field(3, &[8, 1, 8, 2, 8, 3]);
    let mixed = field(3, &[&[8, 9][..], &field(1, &[1, 2]), &[8, 7], &[0x18, 5]].concat());
    let negative = field(3, &field(1, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]));
    let float_list = field(2, &field(1, &1.5_f32.to_le_bytes()));
    let unpacked_floats =
        field(2, &[&[0x0d][..], &2.5_f32.to_le_bytes(), &[0x0d], &3.5_f32.to_le_bytes()].concat());
    let group = [0x4b, 0x08, 1, 0x4c];
    let mut records = vec![
        field(1, &entry(b"a", &packed)),
        field(1, &entry(b"a", &unpacked)),
        field(1, &entry(b"a", &mixed)),
        field(1, &entry(b"a", &negative)),
        // The value precedes the key, and unknown fields surround everything.
        field(1, &field(1, &[field(2, &packed), field(1, b"a")].concat())),
        [
            &group[..],
            &field(1, &[&group[..], &entry(b"a", &[&packed[..], &group].concat()), &[0x20, 7]].concat()),
            &[0x7d, 1, 2, 3, 4],
        ]
        .concat(),
        // The features message, a list and a feature are each stored in two pieces.
        [field(1, &entry(b"a", &packed)), field(1, &entry(b"b", &float_list))].concat(),
        field(1, &entry(b"a", &[packed.clone(), unpacked.clone()].concat())),
        field(1, &field(1, &[field(1, b"a"), field(2, &packed), field(2, &unpacked)].concat())),
        // The last member of a oneof and the last value in a map entry count.
        field(1, &entry(b"b", &[packed.clone(), float_list.clone()].concat())),
        field(1, &[entry(b"a", &unpacked), entry(b"a", &negative), entry(b"b", &float_list)].concat()),
        field(1, &[entry(b"a", &packed), entry(b"a", &field(3, &[]))].concat()),
        field(1, &[entry(b"a", &packed), entry(b"a", &[])].concat()),
        field(1, &entry(b"b", &unpacked_floats)),
        // Entries without a key, without a value, and without both.
        field(1, &field(1, &field(2, &packed))),
        field(1, &field(1, &field(1, b"a"))),
        field(1, &field(1, &[])),
        // A tag that is encoded in more bytes than necessary.
        [&[0x8a, 0x80, 0][..], &field(1, &entry(b"a", &packed))[1..]].concat(),
    ];
    records.push(Vec::new());
    records.push(field(1, &[]));
    records
}

#[test]
fn odd_ways_of_writing_are_read_as_protobuf_reads_them() {
    let records = odd_examples();
    let set = open_file(&frames(&records), &[("decode", "example")]).unwrap();
    let (shown, error) = lines(&*set);
    assert!(error.is_none(), "{error:?}");
    let batch = all_rows(&*set).remove(0);
    for (row, record) in records.iter().enumerate() {
        let message = Example::decode(&record[..]).unwrap();
        let features = message.features.clone().unwrap_or_default().feature;
        let expected = if message.features.is_some() { mapped(&message) } else { json!({}) };
        assert_eq!(shown[row], expected, "{row}");
        for (name, feature) in features {
            let column = batch.column_by_name(&name).unwrap();
            assert_eq!(column.is_null(row), feature.kind.is_none(), "{row} {name}");
            if column.is_null(row) {
                continue;
            }
            let array = column.as_list::<i32>().value(row);
            match feature.kind.unwrap() {
                Kind::Int64List(list) => {
                    assert_eq!(array.as_primitive::<Int64Type>().values(), &list.value[..], "{row}");
                }
                Kind::FloatList(list) => {
                    assert_eq!(array.as_primitive::<Float32Type>().values(), &list.value[..]);
                }
                Kind::BytesList(_) => unreachable!("no such feature"),
            }
        }
    }
}

#[test]
fn sequences_are_lists_of_lists() {
    let unset = Feature { kind: None };
    let messages = [
        sequence(
            &[("id", ints(&[1]))],
            &[("tok", vec![ints(&[]), ints(&[1, 2])]), ("same", vec![floats(&[1.0])])],
        ),
        sequence(&[("id", ints(&[2])), ("same", bytes(&[b"x"]))], &[("tok", vec![])]),
        sequence(&[("id", ints(&[3]))], &[("tok", vec![unset, ints(&[5])])]),
        sequence(&[("id", ints(&[4]))], &[]),
    ];
    let set = open_file(&file(&messages), &[]).unwrap();
    let schema = set.schema();
    let fields: Vec<String> =
        schema.fields().iter().map(|f| format!("{} {}", f.name(), f.data_type())).collect();
    assert_eq!(
        fields,
        ["id Int64", "same Binary", "feature_lists/same List(List(Float32))", "tok List(List(Int64))"]
    );
    let batch = all_rows(&*set).remove(0);
    let tok = batch.column_by_name("tok").unwrap().as_list::<i32>();
    assert_eq!(tok.value_offsets(), [0, 2, 2, 4, 4]);
    assert_eq!((0..4).map(|row| tok.is_null(row)).collect::<Vec<_>>(), [false, false, false, true]);
    let steps = tok.values().as_list::<i32>();
    assert_eq!(steps.value_offsets(), [0, 0, 2, 2, 3]);
    assert_eq!((0..4).map(|step| steps.is_null(step)).collect::<Vec<_>>(), [false, false, true, false]);
    assert_eq!(steps.values().as_primitive::<Int64Type>().values(), &[1, 2, 5]);
}

#[test]
fn batches_and_projections_have_the_same_rows() {
    let messages: Vec<Example> = (0..100_u8)
        .map(|n| example(&[("n", ints(&[n.into()])), ("v", ints(&vec![n.into(); usize::from(n) % 3]))]))
        .collect();
    let set = open_file(&file(&messages), &[]).unwrap();
    for (rows_each, bytes_each) in [(1, u64::MAX), (7, u64::MAX), (1000, 1), (1000, 100), (1000, u64::MAX)] {
        for columns in [None, Some(vec![0]), Some(vec![1]), Some(vec![])] {
            let wanted = columns.clone();
            let (batches, error) = rows(&*set, &Batches { columns, rows: rows_each, bytes: bytes_each });
            assert!(error.is_none());
            assert_eq!(count_rows(&batches), 100);
            assert!(batches.iter().all(|batch| batch.num_rows() <= rows_each));
            if wanted.is_none_or(|columns| columns.contains(&0)) {
                assert_eq!(column_of_ints(&batches, "n"), (0..100).collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn of_several_entries_of_a_key_the_last_counts_whatever_their_kinds() {
    let message = |feature: Feature| example(&[("x", feature)]).encode_to_vec();
    let twice = |first: Feature, last: Feature| [message(first), message(last)].concat();
    let records = [
        message(floats(&[0.5])),
        twice(ints(&[1, 2]), floats(&[1.5])),
        twice(floats(&[9.0, 9.0]), floats(&[2.5])),
        [twice(bytes(&[b"a"]), ints(&[7])), message(floats(&[3.5]))].concat(),
    ];
    for given in [&[][..], &[("infer", "1")]] {
        let set = open_file(&frames(&records), given).unwrap();
        let batches = all_rows(&*set);
        let values: Vec<f32> = batches
            .iter()
            .flat_map(|batch| batch.column(0).as_primitive::<Float32Type>().values().to_vec())
            .collect();
        assert_eq!(values, [0.5, 1.5, 2.5, 3.5], "{given:?}");
    }
    // The kind of the last entry differs from the kind of the other entries.
    let contradiction = [message(floats(&[0.5])), twice(floats(&[1.5]), ints(&[1]))];
    for given in [&[][..], &[("infer", "1")]] {
        let read = open_file(&frames(&contradiction), given).map(|set| rows(&*set, &Batches::default()).1);
        let error = match read {
            Ok(error) => error.unwrap(),
            Err(error) => error,
        };
        let reported = error.to_string();
        assert!(
            reported.contains("column \"x\"")
                && reported.contains("int64_list")
                && reported.contains("record 1"),
            "{reported}"
        );
    }
}
