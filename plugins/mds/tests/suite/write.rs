//! Tests of the writer, which converts rows to samples, and of reading the samples back.

use crate::common::{case, files, folder, read, write};
use serde_json::Value;
use std::sync::Arc;
use tensorferry_mds::Mds;
use tensorferry_sdk::arrow_array::builder::{Int32Builder, ListBuilder, StringBuilder};
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::{Float32Type, Int64Type};
use tensorferry_sdk::arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float32Array, Int64Array, RecordBatch,
    StringArray, StructArray, TimestampMillisecondArray, UInt8Array,
};
use tensorferry_sdk::arrow_schema::Field;
use tensorferry_sdk::memory::records;
use tensorferry_sdk::{ErrorKind, MemoryContext, Severity, Target};
use tensorferry_test_kit::rows::rows;

fn index(files: &tensorferry_test_kit::Files) -> Value {
    serde_json::from_slice(&files["index.json"]).unwrap()
}

#[test]
fn what_was_read_is_written_as_it_was() {
    for name in ["all_encodings", "sharded_hashed", "zstd"] {
        let (batches, _) = read(folder(&case(name)), &[]).unwrap();
        let output = write(&batches, &[]).unwrap();
        assert_eq!(output.losses, [], "{name}");
        let files = output.files.into_iter().chain(output.sealed).collect();
        let (again, _) = read(folder(&files), &[]).unwrap();
        assert_eq!(batches, again, "{name}");
        if name == "all_encodings" {
            let encodings = &index(&files)["shards"][0]["column_encodings"];
            assert_eq!(encodings[1], "float16");
            assert_eq!(
                index(&files)["shards"][0]["column_names"],
                index(&case(name))["shards"][0]["column_names"]
            );
            // Except for their headers, the shards must be identical.
            let shard = |files: &tensorferry_test_kit::Files| {
                let shard = files["shard.00000.mds"].clone();
                let start = u32::from_le_bytes(*shard[4..].first_chunk().unwrap()) as usize;
                shard[start..].to_vec()
            };
            assert_eq!(*encodings, index(&case(name))["shards"][0]["column_encodings"]);
            assert_eq!(shard(&files), shard(&case(name)));
        }
    }
}

#[test]
fn an_index_says_what_its_shards_are() {
    let batch = |n: i64| rows(vec![("n", Arc::new(Int64Array::from(vec![n, n + 1])) as ArrayRef)]);
    let files =
        files(&[batch(1), batch(3)], &[("compression", "zstd"), ("level", "7"), ("hashes", "xxh64, sha1")]);
    assert_eq!(
        files.keys().collect::<Vec<_>>(),
        ["index.json", "shard.00000.mds.zstd", "shard.00001.mds.zstd"]
    );
    let index = index(&files);
    let shard = &index["shards"][1];
    assert_eq!(shard["samples"], 2);
    assert_eq!(shard["compression"], "zstd:7");
    assert_eq!(shard["hashes"], serde_json::json!(["sha1", "xxh64"]));
    assert_eq!(shard["zip_data"]["basename"], "shard.00001.mds.zstd");
    assert_eq!(shard["raw_data"]["basename"], "shard.00001.mds");
    assert_eq!(shard["zip_data"]["bytes"], files["shard.00001.mds.zstd"].len());
    let raw = zstd::stream::decode_all(&files["shard.00001.mds.zstd"][..]).unwrap();
    assert_eq!(shard["raw_data"]["bytes"], raw.len());
    let (batches, losses) = read(folder(&files), &[]).unwrap();
    assert_eq!(losses, []);
    assert_eq!(batches[1].column(0).as_primitive::<Int64Type>().values(), &[3, 4]);
}

#[test]
fn nulls_are_filled_or_said_in_json_or_refused() {
    let batch = rows(vec![
        ("f", Arc::new(Float32Array::from(vec![Some(1.5), None])) as ArrayRef),
        ("s", Arc::new(StringArray::from(vec![None, Some("a")]))),
        ("t", Arc::new(BooleanArray::from(vec![Some(true), Some(false)]))),
    ]);
    let output = write(std::slice::from_ref(&batch), &[]).unwrap();
    let lost: Vec<_> = output.losses.iter().map(|loss| (&*loss.what, loss.severity)).collect();
    assert_eq!(lost, [("t", Severity::Note), ("f", Severity::Lost), ("s", Severity::Lost)]);
    let files = output.files.into_iter().chain(output.sealed).collect();
    let (batches, _) = read(folder(&files), &[]).unwrap();
    assert!(batches[0].column(0).as_primitive::<Float32Type>().value(1).is_nan());
    assert_eq!(batches[0].column(1).as_string::<i32>().value(0), "");
    assert_eq!(batches[0].column(2).as_ref(), &UInt8Array::from(vec![1, 0]) as &dyn Array);
    let json = crate::common::files(std::slice::from_ref(&batch), &[("nulls", "json")]);
    let (batches, _) = read(folder(&json), &[]).unwrap();
    assert_eq!(batches[0].column(0).as_string::<i32>(), &StringArray::from(vec!["1.5", "null"]));
    assert_eq!(batches[0].column(1).as_string::<i32>(), &StringArray::from(vec!["null", "\"a\""]));
    let error = write(&[batch], &[("nulls", "error")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn what_mds_has_no_word_for_is_said() {
    let mut tokens = ListBuilder::new(Int32Builder::new());
    tokens.append_value([Some(1), Some(2)]);
    let mut words = ListBuilder::new(StringBuilder::new());
    words.append_value([Some("a"), None]);
    let decimal = Decimal128Array::from(vec![-12_345]).with_precision_and_scale(10, 2).unwrap();
    let batch = rows(vec![
        ("words", Arc::new(words.finish()) as ArrayRef),
        ("tokens", Arc::new(tokens.finish())),
        ("at", Arc::new(TimestampMillisecondArray::from(vec![0]).with_timezone("Europe/Paris"))),
        ("price", Arc::new(decimal)),
        ("raw", Arc::new(BinaryArray::from_vec(vec![b"\xff"]))),
    ]);
    let output = write(&[batch], &[]).unwrap();
    let lost: Vec<_> = output.losses.iter().map(|loss| &*loss.what).collect();
    assert_eq!(lost, ["words", "at", "price"]);
    let files = output.files.into_iter().chain(output.sealed).collect();
    let encodings = index(&files)["shards"][0]["column_encodings"].clone();
    assert_eq!(encodings, serde_json::json!(["str", "str_decimal", "bytes", "ndarray:int32", "json"]));
    let (batches, _) = read(folder(&files), &[]).unwrap();
    let text = |column: usize| batches[0].column(column).as_string::<i32>().value(0).to_owned();
    assert_eq!([text(0), text(1), text(4)], ["1970-01-01T00:00:00Z", "-123.45", "[\"a\",null]"]);
}

#[test]
fn decimals_in_json_are_a_loss() {
    let decimal = Decimal128Array::from(vec![-12_345]).with_precision_and_scale(10, 2).unwrap();
    let field = Field::new("d", decimal.data_type().clone(), true);
    let nested = StructArray::from(vec![(Arc::new(field), Arc::new(decimal) as ArrayRef)]);
    let output = write(&[rows(vec![("s", Arc::new(nested) as ArrayRef)])], &[]).unwrap();
    assert!(output.losses.iter().any(|loss| loss.why.contains("no decimals")), "{:?}", output.losses);
}

#[test]
fn an_empty_list_is_refused_with_what_to_do() {
    let mut lists = ListBuilder::new(Int32Builder::new());
    lists.append_value([]);
    let batch = rows(vec![("a", Arc::new(lists.finish()) as ArrayRef)]);
    let error = write(std::slice::from_ref(&batch), &[]).unwrap_err();
    assert!(error.to_string().contains("no empty arrays"), "{error}");
    assert!(write(&[batch], &[("lists", "json")]).is_ok());
}

#[test]
fn an_output_is_a_folder() {
    let batch = rows(vec![("a", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]);
    let (schema, target) = (batch.schema(), Target::File("a.mds".to_owned()));
    let written = records::write(&Mds, &[], &schema, &[vec![batch]], &target, &MemoryContext::default());
    assert_eq!(written.unwrap_err().kind(), ErrorKind::Usage);
}

#[test]
fn no_rows_are_a_shard_without_samples() {
    let batch = rows(vec![("a", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]);
    let written =
        records::write(&Mds, &[], &batch.schema(), &[], &Target::Folder, &MemoryContext::default()).unwrap();
    let files = written.files.into_iter().chain(written.sealed).collect();
    assert_eq!(index(&files)["shards"][0]["samples"], 0);
    let (batches, _) = read(folder(&files), &[]).unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 0);
}
