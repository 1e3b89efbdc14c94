//! Tests of files written by pyarrow, and of hostile files.

use crate::{open, read, written};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tensorferry_arrow::Arrow;
use tensorferry_sdk::arrow_array::cast::AsArray;
use tensorferry_sdk::arrow_array::types::Int64Type;
use tensorferry_sdk::arrow_array::{Array, ArrayRef, Int64Array, LargeStringArray, RecordBatch, StringArray};
use tensorferry_sdk::arrow_schema::DataType;
use tensorferry_sdk::memory::records;
use tensorferry_sdk::records::Batches;
use tensorferry_sdk::{ErrorKind, MemoryContext, MemorySource};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/arrow")
}

/// Returns the file name and the bytes of a fixture.
fn case(name: &str) -> (String, Vec<u8>) {
    let entries = fs::read_dir(folder().join(name)).unwrap().map(|entry| entry.unwrap().path());
    let path = entries.into_iter().find(|path| path.file_stem().unwrap() == "data").unwrap();
    (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())
}

fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

#[test]
fn every_case_is_read_or_refused() {
    let (mut ok, mut refused) = (0, 0);
    for entry in fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let (file, bytes) = case(&name);
        let found = read(&file, bytes);
        if name.starts_with("bad_") {
            let error = found.err().unwrap_or_else(|| panic!("{name} is read"));
            let kinds = [ErrorKind::Malformed, ErrorKind::Unsupported, ErrorKind::Limit];
            assert!(kinds.contains(&error.kind()), "{name}: {error}");
            assert!(error.to_string().starts_with("data."), "{name}: {error}");
            refused += 1;
        } else {
            let text = fs::read_to_string(folder().join(&name).join("expected.json")).unwrap();
            let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(text.contains(&format!("\"n_records\": {},", rows(&found))), "{name}: {}", rows(&found));
            ok += 1;
        }
    }
    assert_eq!((ok, refused), (13, 15));
}

#[test]
fn every_beginning_of_a_file_is_refused_or_read_in_part() {
    let mut cuts = 0;
    for name in ["file_dictionary", "stream_dictionary_delta", "file_rare_types", "file_zstd"] {
        let (file, bytes) = case(name);
        for end in (0..bytes.len()).step_by(7) {
            // A truncated stream may still be readable, since a stream does not need an end mark.
            let found = read(&file, bytes[..end].to_vec());
            assert!(found.is_err() || file.ends_with(".arrows"), "{name} cut at {end}");
            cuts += 1;
        }
    }
    assert!(cuts > 500, "{cuts}");
}

#[test]
fn dictionaries_extensions_and_metadata_stay() {
    let (file, bytes) = case("stream_dictionary_delta");
    let batches = read(&file, bytes).unwrap();
    let column = batches[0].column(0);
    assert!(matches!(column.data_type(), DataType::Dictionary(..)), "{:?}", column.data_type());
    let lengths: Vec<usize> =
        batches.iter().map(|batch| batch.column(0).as_any_dictionary().values().len()).collect();
    assert!(lengths.windows(2).all(|pair| pair[0] < pair[1]), "{lengths:?}");

    let (file, bytes) = case("file_fixed_shape_tensor");
    let set = open(&file, bytes).unwrap();
    let schema = set.schema();
    let metadata = schema.field_with_name("img").unwrap().metadata();
    assert_eq!(metadata["ARROW:extension:name"], "arrow.fixed_shape_tensor");
    assert!(
        metadata["ARROW:extension:metadata"].contains("[2,3]")
            || metadata["ARROW:extension:metadata"].contains("[2, 3]")
    );

    let (file, bytes) = case("file_flat_types");
    assert_eq!(open(&file, bytes).unwrap().schema().metadata()["k"], "\u{fc}");
}

#[test]
fn feather_of_2016_is_named() {
    let (file, bytes) = case("bad_feather_v1");
    assert!(read(&file, bytes).unwrap_err().to_string().contains("Feather V1"));
}

/// Reads a small file from this crate's test data.
fn data(name: &str) -> Vec<RecordBatch> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    read(name, fs::read(path).unwrap()).unwrap()
}

#[test]
fn compressed_batches_of_arrow_0_17_are_decompressed() {
    let rows = data("lz4_of_0_17.arrows");
    let column = rows[0].column(0).as_primitive::<Int64Type>();
    assert_eq!(column.values()[..], [0, 1, 2, 3, 4]);
}

#[test]
fn nulls_of_dictionaries_are_in_their_keys() {
    let rows = &data("nest_dict.arrow")[0];
    let lists = |name: &str| {
        let column = rows.column_by_name(name).unwrap().clone();
        let lists = column.as_list::<i32>().clone();
        let items = lists.values().as_any_dictionary().keys();
        (0..items.len()).map(|item| items.is_null(item)).collect::<Vec<_>>()
    };
    assert_eq!(lists("list_value_null"), [false, true, true, false]);
    assert_eq!(lists("int_list"), [false, true, true, false]);
    let inner = rows.column_by_name("struct_value_null").unwrap().as_struct().column(0);
    assert_eq!(inner.as_any_dictionary().keys().null_count(), 1);
    assert_eq!(rows.column_by_name("enc").unwrap().null_count(), 1);
}

#[test]
fn a_dictionary_may_have_no_values() {
    for rows in data("dictionary_without_values.arrow") {
        assert_eq!(rows.column_by_name("c").unwrap().logical_null_count(), rows.num_rows());
    }
}

#[test]
fn large_and_plain_texts_are_one_column() {
    let file = |array: ArrayRef| {
        let rows = RecordBatch::try_from_iter_with_nullable([("s", array, true)]).unwrap();
        written("a.arrow", &[vec![rows]], &[]).unwrap()
    };
    let plain = file(Arc::new(StringArray::from(vec!["x"])));
    let large = file(Arc::new(LargeStringArray::from(vec!["y"])));
    let numbers = file(Arc::new(Int64Array::from(vec![1])));
    let set = |files: [(&str, &[u8]); 2]| {
        records::open(&Arrow, &[], Arc::new(MemorySource::folder(files)), &MemoryContext::default())
    };
    for files in [[("a.arrow", &plain[..]), ("b.arrow", &large)], [("a.arrow", &large), ("b.arrow", &plain)]]
    {
        let rows = records::read(&*set(files).unwrap(), &Batches::default()).unwrap().concat();
        assert!(rows.iter().all(|batch| batch.column(0).data_type() == &DataType::LargeUtf8));
        assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
    }
    let error = set([("a.arrow", &plain), ("b.arrow", &numbers)]).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("expected utf8, found int64"), "{error}");
}
