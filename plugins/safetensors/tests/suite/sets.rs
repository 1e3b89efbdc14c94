//! Reads and writes sets of shards, and tied tensors.

use crate::common::{bytes_file, contents, convert, folder, refusal, reopen, with_view, write};
use std::collections::BTreeMap;
use tensorferry_safetensors::Safetensors;
use tensorferry_sdk::memory::{self, MemoryOutput, MemoryView};
use tensorferry_sdk::{
    CatalogSink, CatalogView, Dtype, Entry, LossKind, MemoryContext, MemorySource, Result, Role, Storage,
    Target,
};

const INDEX: &str = "model.safetensors.index.json";

fn index(weight_map: &str) -> (&'static str, Vec<u8>) {
    (INDEX, format!(r#"{{"metadata":{{"total_size":1}},"weight_map":{weight_map}}}"#).into_bytes())
}

#[test]
fn a_model_is_split_as_the_hub_does() {
    let tensors: [(&str, &[u8]); 4] = [("a", b"aaaa"), ("b", b"bb"), ("c", b"c"), ("d", b"dddddddd")];
    let source = MemorySource::file("m.safetensors", bytes_file(r#"{"format":"pt"}"#, &tensors));
    let output = convert(&source, &[("max_shard_size", "6")]).unwrap();
    let roles: Vec<(&str, Role)> =
        output.layout.files().iter().map(|file| (&*file.path, file.role)).collect();
    let shard = |number| format!("model-0000{number}-of-00003.safetensors");
    let names = [shard(1), shard(2), shard(3)];
    let expected =
        [(&*names[0], Role::Data), (&*names[1], Role::Data), (&*names[2], Role::Data), (INDEX, Role::Index)];
    assert_eq!(roles, expected);
    assert_eq!(
        String::from_utf8_lossy(&output.files[INDEX]),
        r#"{
  "metadata": {
    "total_size": 15
  },
  "weight_map": {
    "a": "model-00001-of-00003.safetensors",
    "b": "model-00001-of-00003.safetensors",
    "c": "model-00003-of-00003.safetensors",
    "d": "model-00002-of-00003.safetensors"
  }
}
"#
    );
    for name in &names {
        assert!(output.files[name].windows(15).any(|part| part == br#"{"format":"pt"}"#));
    }
    let before = with_view(&source, |view, _| contents(view)).unwrap();
    assert_eq!(with_view(&reopen(&output), |view, _| contents(view)).unwrap(), before);
    let whole = convert(&reopen(&output), &[]).unwrap();
    assert_eq!(whole.files, convert(&source, &[]).unwrap().files);
}

#[test]
fn a_set_without_an_index_is_whole_or_refused() {
    let first = ("m-00001-of-00002.safetensors", bytes_file("{}", &[("a", b"1")]));
    let second = ("m-00002-of-00002.safetensors", bytes_file("{}", &[("b", b"2")]));
    let both = folder(&[first.clone(), second.clone()]);
    assert_eq!(with_view(&both, |view, _| contents(view).len()).unwrap(), 2);
    assert!(
        refusal(&folder(&[first.clone(), ("n-00002-of-00002.safetensors", second.1)]))
            .contains("several models")
    );
    let same = ("m-00002-of-00002.safetensors", first.1.clone());
    assert!(refusal(&folder(&[first, same])).contains(r#"tensor "a", found "m-00001"#));
}

#[test]
fn an_index_is_held_against_its_files() {
    let one = ("1.safetensors", bytes_file("{}", &[("a", b"1"), ("b", b"2")]));
    let good = folder(&[index(r#"{"a":"1.safetensors","b":"1.safetensors"}"#), one.clone()]);
    assert_eq!(with_view(&good, |view, _| contents(view).len()).unwrap(), 2);
    let message = |weight_map: &str| refusal(&folder(&[index(weight_map), one.clone()]));
    let found = message(r#"{"a":"1.safetensors","b":"1.safetensors","c":"1.safetensors"}"#);
    assert!(found.contains(r#"found "c" in "1.safetensors""#), "{found}");
    let found = message(r#"{"a":"1.safetensors","b":"2.safetensors"}"#);
    assert!(found.contains(r#"found "2.safetensors""#), "{found}");
    assert!(message(r#"{"a":"../1.safetensors"}"#).contains("leaves its folder"));
    assert!(message(r#"{"a":"1.safetensors","a":"1.safetensors"}"#).contains("is duplicated"));
}

/// The index defines which tensors are in the model, even if the files contain more tensors.
#[test]
fn an_index_decides_which_tensors_are_read() {
    let set = folder(&[
        index(r#"{"a":"1.safetensors","b":"2.safetensors"}"#),
        ("1.safetensors", bytes_file("{}", &[("a", b"1"), ("b", b"old")])),
        ("2.safetensors", bytes_file("{}", &[("b", b"new"), ("mtp", b"x")])),
    ]);
    let (tensors, losses, notes) =
        with_view(&set, |view, context| (contents(view), view.catalog().losses().to_vec(), context.notes()))
            .unwrap();
    assert_eq!(tensors.len(), 2);
    assert!(format!("{tensors:?}").contains(&format!("{:?}", b"new")), "{tensors:?}");
    let lost: Vec<(LossKind, &str)> = losses.iter().map(|loss| (loss.kind, &*loss.what)).collect();
    assert_eq!(lost, [(LossKind::Tensor, "mtp")]);
    assert!(notes.len() == 1 && notes[0].contains(r#""b" in "1.safetensors""#), "{notes:?}");
}

#[test]
fn ranks_are_not_taken_for_models() {
    let rank = |name: &str| (name.to_owned(), bytes_file("{}", &[("a", b"1")]));
    let files = BTreeMap::from([rank("rank0.safetensors"), rank("rank1.safetensors")]);
    let of = |entry| refusal(&MemorySource::new(entry, files.clone()));
    assert!(of(Entry::Folder).contains("cannot join"));
    let named =
        with_view(&MemorySource::new(Entry::File("rank0.safetensors".to_owned()), files), |_, context| {
            context.notes()
        });
    assert!(named.unwrap()[0].contains("a part of a model"));
    let one = folder(&[("m-00001-of-00002.safetensors", bytes_file("{}", &[("a", b"1")]))]);
    assert!(refusal(&one).contains("a shard is missing"));
}

#[test]
fn a_shard_alone_is_read_alone() {
    let files = BTreeMap::from([
        ("m-00001-of-00002.safetensors".to_owned(), bytes_file(r#"{"x":"b"}"#, &[("a", b"1")])),
        (INDEX.to_owned(), index(r#"{"a":"m-00001-of-00002.safetensors","b":"other"}"#).1),
    ]);
    let source = MemorySource::new(Entry::File("m-00001-of-00002.safetensors".to_owned()), files);
    let (names, metadata, notes) = with_view(&source, |view, context| {
        (contents(view), view.metadata_texts().into_iter().collect::<BTreeMap<_, _>>(), context.notes())
    })
    .unwrap();
    assert_eq!(names.len(), 1);
    // The metadata entry is kept, because the tensor that it refers to is in a different file.
    assert_eq!(metadata["x"], "b");
    assert!(notes[0].contains("one of 2 shards"));
}

#[test]
fn metadata_of_shards_is_one() {
    let set = folder(&[
        ("1.safetensors", bytes_file(r#"{"k":"v","one":"1"}"#, &[("a", b"1")])),
        ("2.safetensors", bytes_file(r#"{"k":"other"}"#, &[("b", b"2")])),
        (INDEX, br#"{"metadata":{"total_size":2,"list":[1],"n":3},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}"#.to_vec()),
    ]);
    let (metadata, losses) = with_view(&set, |view, _| {
        let catalog = view.catalog();
        (view.metadata_texts().into_iter().collect::<BTreeMap<_, _>>(), catalog.losses().to_vec())
    })
    .unwrap();
    let expected =
        [("k", "v"), ("n", "3"), ("one", "1")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(metadata, BTreeMap::from(expected));
    let lost: Vec<(LossKind, &str)> = losses.iter().map(|loss| (loss.kind, &*loss.what)).collect();
    assert_eq!(lost, [(LossKind::Metadata, "k"), (LossKind::Metadata, "list")]);
}

/// Builds a file with the tied tensors `b`, `a` and `c`, and a separate tensor `d`.
fn tied() -> MemorySource {
    MemorySource::file("m.safetensors", bytes_file(r#"{"b":"a","c":"a"}"#, &[("a", b"aaaa"), ("d", b"dd")]))
}

fn ties(output: &MemoryOutput) -> (Vec<String>, BTreeMap<String, String>, Vec<u32>) {
    with_view(&reopen(output), |view, _| {
        let catalog = view.catalog();
        let names = catalog.tensors().iter().map(|tensor| tensor.name.clone()).collect();
        (names, view.metadata_texts().into_iter().collect(), catalog.ties().iter().map(|id| id.0).collect())
    })
    .unwrap()
}

#[test]
fn tied_tensors_are_each_written_or_tied_again() {
    let kept = convert(&tied(), &[]).unwrap();
    assert_eq!(
        ties(&kept),
        (["a", "b", "c", "d"].map(str::to_owned).to_vec(), BTreeMap::new(), vec![0, 1, 2, 3])
    );

    let deduped = convert(&tied(), &[("tied", "dedupe")]).unwrap();
    assert_eq!(
        ties(&deduped),
        (["a", "b", "c", "d"].map(str::to_owned).to_vec(), BTreeMap::new(), vec![0, 0, 0, 3])
    );
    assert_eq!(
        deduped.files["model.safetensors"],
        convert(&tied(), &[("tied", "dedupe"), ("prefer", "x*")]).unwrap().files["model.safetensors"]
    );

    let preferred = convert(&tied(), &[("tied", "dedupe"), ("prefer", "[bc]")]).unwrap();
    for (prefer, notes) in [("x*", 1), ("[bc]", 0)] {
        let context = MemoryContext::default();
        let options = memory::pairs(&[("tied", "dedupe"), ("prefer", prefer)]);
        let target = Target::Folder;
        with_view(&tied(), |view, _| {
            memory::write(&Safetensors, &options, view, &target, &context).map(drop)
        })
        .unwrap()
        .unwrap();
        let reported = context.notes();
        assert_eq!(reported.iter().filter(|note| note.contains(prefer)).count(), notes, "{reported:?}");
    }
    assert_eq!(ties(&preferred).0, ["b", "a", "c", "d"]);
    let text = String::from_utf8_lossy(&preferred.files["model.safetensors"]).into_owned();
    assert!(text.contains(r#""__metadata__":{"a":"b","c":"b"}"#), "{text}");
}

#[test]
fn ties_live_in_sets() {
    let output = convert(&tied(), &[("tied", "dedupe"), ("max_shard_size", "4")]).unwrap();
    assert_eq!(output.files.len(), 3);
    assert_eq!(ties(&output).2, [0, 0, 0, 3]);
    // huggingface_hub stores ties in the metadata of the index. Other programs list the dropped
    // names in `weight_map`.
    let set = folder(&[
        ("1.safetensors", bytes_file("{}", &[("a", b"1")])),
        (INDEX, br#"{"metadata":{"b":"a"},"weight_map":{"a":"1.safetensors","b":"1.safetensors"}}"#.to_vec()),
    ]);
    assert_eq!(with_view(&set, |view, _| contents(view).len()).unwrap(), 2);
}

/// Writes a catalog that `make` fills in the same way as the reader of a different format would.
fn write_made(
    make: fn(&mut dyn CatalogSink) -> Result<()>,
    options: &[(&str, &str)],
    target: &Target,
) -> MemoryOutput {
    let source = MemorySource::file("x", []);
    let context = MemoryContext::default();
    let view = MemoryView::build("torch", &source, &context, make).unwrap();
    write(&view, options, target).unwrap()
}

#[test]
fn what_safetensors_cannot_hold_is_a_loss() {
    let output = write_made(
        |catalog| {
            let data = catalog.storage(Storage::inline([0; 16]))?;
            for (name, dtype) in
                [("c", Dtype::C128), ("q", Dtype::QI8), ("i", Dtype::I8), ("__metadata__", Dtype::I8)]
            {
                catalog.tensor(name, dtype, &[1], data, 0)?;
            }
            catalog.tensor("huge", Dtype::I8, &[u64::MAX, 2, 0], data, 0)?;
            catalog.metadata_text("note", "i")?;
            catalog.metadata_text("plain", "text")
        },
        &[],
        &Target::File("out.safetensors".to_owned()),
    );
    let lost: Vec<String> = output.layout.losses().iter().map(ToString::to_string).collect();
    assert_eq!(lost.len(), 5, "{lost:?}");
    assert_eq!(lost[0], r#"tensor "c": safetensors has no dtype C128: keep the input format"#);
    assert!(lost[4].starts_with(r#"metadata "note": "#), "{lost:?}");
    let text = String::from_utf8_lossy(&output.files["out.safetensors"]).into_owned();
    assert!(text[8..].starts_with(r#"{"__metadata__":{"format":"pt","plain":"text"},"i":{"#), "{text}");
}

#[test]
fn a_name_that_metadata_uses_stays_a_tensor() {
    let make = |catalog: &mut dyn CatalogSink| {
        let data = catalog.storage(Storage::inline([0; 4]))?;
        for name in ["a", "b", "c", "format"] {
            catalog.tensor(name, Dtype::F32, &[1], data, 0)?;
        }
        catalog.metadata_text("b", "something")
    };
    let output = write_made(make, &[("tied", "dedupe")], &Target::Folder);
    assert!(output.layout.losses().is_empty());
    let (names, metadata, ties) = ties(&output);
    assert_eq!(names, ["a", "c", "b", "format"]);
    assert_eq!(ties, [0, 0, 2, 3]);
    let expected =
        [("b", "something"), ("format", "pt")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(metadata, BTreeMap::from(expected));
}

#[test]
fn a_catalog_of_nothing_is_a_file() {
    let output = write_made(|_| Ok(()), &[("format", "none"), ("max_shard_size", "1GB")], &Target::Folder);
    assert_eq!(output.files["model.safetensors"], b"\x08\0\0\0\0\0\0\0{}      ");
    assert!(with_view(&reopen(&output), |view, _| contents(view).is_empty()).unwrap());
}
