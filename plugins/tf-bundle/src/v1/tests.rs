#![expect(clippy::unwrap_used, reason = "tests")]

use crate::TfBundle;
use crate::slice_key::encode as slice_key;
use crate::testing::{self, shape, slice, strings as logical, table};
use std::collections::BTreeMap;
use tensorferry_proto::{
    DataType, Message as _, SavedSlice, SavedSliceMeta, SavedTensorSliceMeta, SavedTensorSlices, TensorProto,
    TensorSliceProto,
};
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{Error, Limits, MemorySource, Result};
use tensorferry_test_kit::Files;

type Slices = Vec<(TensorSliceProto, TensorProto)>;

/// Returns a listed tensor.
fn listed(name: &str, dtype: DataType, dims: &[i64], slice: Vec<TensorSliceProto>) -> SavedSliceMeta {
    SavedSliceMeta { name: name.to_owned(), shape: Some(shape(dims)), r#type: dtype.into(), slice }
}

/// Returns the value of the empty key, which lists these tensors.
fn list(tensor: Vec<SavedSliceMeta>) -> Vec<u8> {
    let meta = SavedTensorSliceMeta { tensor, versions: None };
    SavedTensorSlices { meta: Some(meta), data: None }.encode_to_vec()
}

/// Returns the bytes of a checkpoint file. `tensors` contains the name, dtype, shape and slices of
/// each tensor.
fn file(tensors: &[(&str, DataType, &[i64], Slices)], unlisted: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut entries = BTreeMap::new();
    let mut lists = Vec::new();
    for (name, dtype, dims, slices) in tensors {
        lists.push(listed(name, *dtype, dims, slices.iter().map(|(slice, _)| slice.clone()).collect()));
        for (slice, values) in slices {
            let data = SavedSlice {
                name: (*name).to_owned(),
                slice: Some(slice.clone()),
                data: Some(values.clone()),
            };
            let value = SavedTensorSlices { meta: None, data: Some(data) };
            entries.insert(slice_key(name.as_bytes(), slice), value.encode_to_vec());
        }
    }
    entries.insert(Vec::new(), list(lists));
    entries.extend(unlisted.iter().cloned());
    table(&entries.into_iter().collect::<Vec<_>>(), 2, 1)
}

fn ints(values: &[i32]) -> TensorProto {
    TensorProto { int_val: values.to_vec(), ..TensorProto::default() }
}

fn strings(values: &[&str]) -> TensorProto {
    let string_val = values.iter().map(|value| value.as_bytes().to_vec()).collect();
    TensorProto { string_val, ..TensorProto::default() }
}

fn reading<T>(files: &[Vec<u8>], look: impl FnOnce(&MemoryView<'_>) -> Result<T>) -> Result<T> {
    let count = files.len();
    let name = |number: usize| format!("model-{number:05}-of-{count:05}");
    let files: Files = files.iter().enumerate().map(|(n, bytes)| (name(n), bytes.clone())).collect();
    let source = MemorySource::new(testing::file(&name(0)), files);
    testing::reading(&TfBundle, &source, &Limits::default(), look)
}

fn error(files: &[Vec<u8>]) -> Error {
    reading(files, |_| Ok(())).unwrap_err()
}

#[test]
fn whole_tensors_and_slices_of_several_files_are_read() {
    let left = slice(&[(0, -1), (0, 1)]);
    let right = slice(&[(0, -1), (1, 2)]);
    let first = file(
        &[
            ("scalar", DataType::DtUint8, &[], vec![(slice(&[]), ints(&[7]))]),
            ("cut", DataType::DtInt8, &[2, 3], vec![(left.clone(), ints(&[1, 4]))]),
            ("text", DataType::DtString, &[2, 3], vec![(right.clone(), strings(&["b", "c", "", "f"]))]),
            ("empty", DataType::DtFloat, &[0, 2], vec![(slice(&[(0, -1), (0, -1)]), TensorProto::default())]),
        ],
        &[],
    );
    let second = file(
        &[
            ("cut", DataType::DtInt8, &[2, 3], vec![(right, ints(&[2, 3, 5, 6]))]),
            ("text", DataType::DtString, &[2, 3], vec![(left, strings(&["a", "dd"]))]),
        ],
        &[],
    );
    reading(&[first, second], |view| {
        let names: Vec<_> = view.catalog().tensors().iter().map(|tensor| &*tensor.name).collect();
        assert_eq!(names, ["cut", "empty", "scalar", "text"]);
        assert_eq!(view.tensor_named("scalar")?, ("U8".into(), vec![], vec![7]));
        assert_eq!(view.tensor_named("cut")?, ("I8".into(), vec![2, 3], vec![1, 2, 3, 4, 5, 6]));
        assert_eq!(view.tensor_named("empty")?, ("F32".into(), vec![0, 2], vec![]));
        assert_eq!(
            view.tensor_named("text")?,
            ("STR".into(), vec![2, 3], logical(&["a", "b", "c", "dd", "", "f"]))
        );
        assert!(view.catalog().losses().is_empty());
        Ok(())
    })
    .unwrap();
}

#[test]
fn slices_that_are_missing_or_do_not_fit_are_named() {
    let whole = || slice(&[(0, -1)]);
    let one = |dims: &[i64], slices: Slices| file(&[("w", DataType::DtInt8, dims, slices)], &[]);
    let far = || slice(&[(1, 2)]);
    for (files, what) in [
        (vec![one(&[2], vec![])], "gap"),
        (vec![one(&[3], vec![(far(), ints(&[1, 2]))])], "gap"),
        (vec![one(&[3], vec![(whole(), ints(&[1, 2, 3])), (far(), ints(&[1, 2]))])], "overlap"),
        (vec![one(&[2], vec![(whole(), ints(&[1]))])], "slice - has fewer values"),
        (vec![one(&[2], vec![(whole(), ints(&[1, 2, 3]))])], "more values"),
        (vec![one(&[2], vec![(far(), ints(&[1, 2]))])], "does not fit"),
        (vec![one(&[2, 2], vec![(whole(), ints(&[1, 2]))])], "does not fit"),
        (vec![one(&[2], vec![(whole(), ints(&[1, 2])), (whole(), ints(&[1, 2]))])], "twice"),
        (vec![one(&[2], vec![(whole(), ints(&[1, 2]))]), one(&[3], vec![])], "disagree"),
        (vec![one(&[2], vec![(whole(), ints(&[1, 2]))]); 2], "overlap"),
    ] {
        let error = error(&files).to_string();
        assert!(error.contains(what) && error.contains("tensor \"w\""), "{what}: {error}");
    }
    let text = |slices: Slices| file(&[("w", DataType::DtString, &[2], slices)], &[]);
    assert!(error(&[text(vec![])]).to_string().contains("gap"));

    // A slice that is listed but missing from the table.
    let value = list(vec![listed("w", DataType::DtInt8, &[3], vec![far()])]);
    let error = error(&[table(&[(Vec::new(), value)], 1, 0)]).to_string();
    assert!(error.contains("tensor \"w\"") && error.contains("expected slice 1,2"), "{error}");
}

#[test]
fn what_nothing_lists_is_a_loss() {
    let key = slice_key(b"lost", &slice(&[(0, -1), (1, 2)]));
    let one =
        file(&[("w", DataType::DtInt8, &[1], vec![(slice(&[(0, -1)]), ints(&[1]))])], &[(key, vec![1])]);
    reading(&[one], |view| {
        let losses: Vec<_> = view.catalog().losses().iter().map(|loss| &*loss.what).collect();
        assert_eq!(losses, ["lost -:1,2"]);
        Ok(())
    })
    .unwrap();
    assert!(error(&[table(&[(Vec::new(), Vec::new())], 1, 0)]).message().contains("does not list"));
}

#[test]
fn no_list_makes_it_panic() {
    let meta = list(vec![listed("w", DataType::DtInt8, &[2], vec![slice(&[(0, 2)])])]);
    let key = slice_key(b"w", &slice(&[(0, 2)]));
    let data = SavedSlice { name: "w".to_owned(), slice: None, data: Some(ints(&[1, 2])) };
    let data = SavedTensorSlices { meta: None, data: Some(data) }.encode_to_vec();
    let both = [meta.clone(), data].concat();
    for place in 0..both.len() {
        for byte in 0..=255 {
            let mut changed = both.clone();
            changed[place] = byte;
            let (meta, data) = changed.split_at(meta.len());
            let entries = [(Vec::new(), meta.to_vec()), (key.clone(), data.to_vec())];
            drop(reading(&[table(&entries, 2, 0)], |view| view.tensor_named("w").map(drop)));
        }
    }
}
