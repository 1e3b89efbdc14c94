#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::slice_key;
use crate::table::testing::table;
use std::collections::BTreeMap;
use tensorferry_proto::tensor_slice_proto::{Extent, extent::HasLength};
use tensorferry_proto::{
    DataType, Message as _, SavedSlice, SavedSliceMeta, SavedTensorSliceMeta, SavedTensorSlices, TensorProto,
    TensorShapeProto, TensorSliceProto, tensor_shape_proto::Dim,
};
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{
    CatalogSink, Context, Description, Entry, Error, Format, MemoryContext, MemorySource, Options, Result,
    Source, TensorDecoder, TensorReader,
};

/// Reads all files of a source as one checkpoint.
struct V1;

impl Format for V1 {
    fn describe(&self) -> Description {
        Description { id: "v1".to_owned(), ..Description::default() }
    }

    fn reader(&self, _options: &Options) -> Result<Box<dyn TensorReader>> {
        Ok(Box::new(Self))
    }
}

impl TensorReader for V1 {
    fn read(
        &self,
        source: &dyn Source,
        catalog: &mut dyn CatalogSink,
        context: &dyn Context,
    ) -> Result<Box<dyn TensorDecoder>> {
        Ok(Box::new(read_v1(source, &source.list("")?, catalog, context)?))
    }
}

type Slices = Vec<(TensorSliceProto, TensorProto)>;

/// One file's bytes: tensors by name, dtype and shape, with those of their slices that it has.
fn file(tensors: &[(&str, DataType, &[i64], Slices)], unlisted: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let mut entries = BTreeMap::new();
    let mut meta = SavedTensorSliceMeta::default();
    for (name, dtype, dims, slices) in tensors {
        let dim = dims.iter().map(|&size| Dim { size, name: String::new() }).collect();
        meta.tensor.push(SavedSliceMeta {
            name: (*name).to_owned(),
            shape: Some(TensorShapeProto { dim, unknown_rank: false }),
            r#type: (*dtype).into(),
            slice: slices.iter().map(|(slice, _)| slice.clone()).collect(),
        });
        for (slice, values) in slices {
            let name = (*name).to_owned();
            let key = slice_key::encode(name.as_bytes(), slice);
            let data = SavedSlice { name, slice: Some(slice.clone()), data: Some(values.clone()) };
            let value = SavedTensorSlices { meta: None, data: Some(data) };
            entries.insert(key, value.encode_to_vec());
        }
    }
    let value = SavedTensorSlices { meta: Some(meta), data: None };
    entries.insert(Vec::new(), value.encode_to_vec());
    entries.extend(unlisted.iter().cloned());
    table(&entries.into_iter().collect::<Vec<_>>(), 2, 1)
}

fn slice(extents: &[Option<(i64, i64)>]) -> TensorSliceProto {
    let extent = |extent: &Option<(i64, i64)>| match *extent {
        Some((start, length)) => Extent { start, has_length: Some(HasLength::Length(length)) },
        None => Extent::default(),
    };
    TensorSliceProto { extent: extents.iter().map(extent).collect() }
}

fn ints(values: &[i32]) -> TensorProto {
    TensorProto { int_val: values.to_vec(), ..TensorProto::default() }
}

fn strings(values: &[&str]) -> TensorProto {
    let string_val = values.iter().map(|value| value.as_bytes().to_vec()).collect();
    TensorProto { string_val, ..TensorProto::default() }
}

fn reading<T>(files: &[Vec<u8>], look: impl FnOnce(&MemoryView<'_>) -> Result<T>) -> Result<T> {
    let names = (0..).map(|number| format!("model-{number:05}-of-{:05}", files.len()));
    let source = MemorySource::new(Entry::Folder, names.zip(files.iter().cloned()).collect());
    let context = MemoryContext::default();
    look(&MemoryView::read(&V1, &[], &source, &context)?)
}

fn error(files: &[Vec<u8>]) -> Error {
    reading(files, |_| Ok(())).unwrap_err()
}

#[test]
fn whole_tensors_and_slices_of_several_files_are_read() {
    let left = slice(&[None, Some((0, 1))]);
    let right = slice(&[None, Some((1, 2))]);
    let first = file(
        &[
            ("scalar", DataType::DtUint8, &[], vec![(slice(&[]), ints(&[7]))]),
            ("cut", DataType::DtInt8, &[2, 3], vec![(left.clone(), ints(&[1, 4]))]),
            ("text", DataType::DtString, &[2, 3], vec![(right.clone(), strings(&["b", "c", "", "f"]))]),
            ("empty", DataType::DtFloat, &[0, 2], vec![(slice(&[None, None]), TensorProto::default())]),
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
        let mut texts = Vec::new();
        for text in ["a", "b", "c", "dd", "", "f"] {
            texts.extend((text.len() as u64).to_le_bytes());
            texts.extend(text.as_bytes());
        }
        assert_eq!(view.tensor_named("text")?, ("STR".into(), vec![2, 3], texts));
        assert!(view.catalog().losses().is_empty());
        Ok(())
    })
    .unwrap();
}

#[test]
fn slices_that_are_missing_or_do_not_fit_are_named() {
    let whole = || slice(&[None]);
    let one = |dims: &[i64], slices: Slices| file(&[("w", DataType::DtInt8, dims, slices)], &[]);
    let far = || slice(&[Some((1, 2))]);
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

    // Listed, and not in the table.
    let listed = SavedSliceMeta {
        name: "w".to_owned(),
        shape: Some(TensorShapeProto {
            dim: vec![Dim { size: 3, name: String::new() }],
            unknown_rank: false,
        }),
        r#type: DataType::DtInt8.into(),
        slice: vec![far()],
    };
    let meta = SavedTensorSliceMeta { tensor: vec![listed], versions: None };
    let value = SavedTensorSlices { meta: Some(meta), data: None };
    let error = error(&[table(&[(Vec::new(), value.encode_to_vec())], 1, 0)]).to_string();
    assert!(error.contains("tensor \"w\"") && error.contains("expected slice 1,2"), "{error}");
}

#[test]
fn what_nothing_lists_is_a_loss() {
    let key = slice_key::encode(b"lost", &slice(&[None, Some((1, 2))]));
    let one = file(&[("w", DataType::DtInt8, &[1], vec![(slice(&[None]), ints(&[1]))])], &[(key, vec![1])]);
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
    let meta = SavedTensorSliceMeta {
        tensor: vec![SavedSliceMeta {
            name: "w".to_owned(),
            shape: Some(TensorShapeProto {
                dim: vec![Dim { size: 2, name: String::new() }],
                unknown_rank: false,
            }),
            r#type: DataType::DtInt8.into(),
            slice: vec![slice(&[Some((0, 2))])],
        }],
        versions: None,
    };
    let meta = SavedTensorSlices { meta: Some(meta), data: None }.encode_to_vec();
    let key = slice_key::encode(b"w", &slice(&[Some((0, 2))]));
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
