//! Tests of trees whose small arrays are in the msgpack file `checkpoint`, and of typed keys.

use tensorferry_orbax::Orbax;
use tensorferry_sdk::memory::{self, MemoryOutput, MemoryView};
use tensorferry_sdk::{
    Dtype, Entry, ErrorKind, Format, LossKind, MemoryContext, MemorySource, NodeKind, Score, Storage, Target,
    Value,
};
use tensorferry_test_kit::Files;
use tensorferry_test_kit::tensors::{with_view, write};

fn text(text: &str) -> Vec<u8> {
    [&[0xd9, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

fn map(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let entries = entries.iter().map(|(key, value)| [text(key), value.clone()].concat());
    let count = u8::try_from(entries.len()).unwrap();
    [vec![0x80 + count], entries.collect::<Vec<_>>().concat()].concat()
}

fn list(items: &[Vec<u8>]) -> Vec<u8> {
    [vec![0x90 + u8::try_from(items.len()).unwrap()], items.concat()].concat()
}

/// Encodes an array of bytes.
fn array(elements: &[u8]) -> Vec<u8> {
    let len = u8::try_from(elements.len()).unwrap();
    let payload = [&[0x93, 0x91, len], &text("uint8")[..], &[0xc4, len], elements].concat();
    [&[0xc7, u8::try_from(payload.len()).unwrap(), 1], &payload[..]].concat()
}

fn zarr(name: &str, elements: &[u8]) -> Vec<(String, Vec<u8>)> {
    let description = format!(
        r#"{{"zarr_format": 2, "shape": [{0}], "chunks": [{0}], "dtype": "|u1", "order": "C", "compressor": null,
            "filters": null, "fill_value": null}}"#,
        elements.len()
    );
    vec![(format!("{name}/.zarray"), description.into_bytes()), (format!("{name}/0"), elements.to_vec())]
}

/// Returns a tree with three arrays in the file `checkpoint` and references to two arrays in
/// folders.
pub(crate) fn files() -> Files {
    let tree = map(&[
        ("cfg", map(&[("lr", [&[0xcb][..], &0.5_f64.to_be_bytes()].concat()), ("name", text("adam"))])),
        ("empty", map(&[])),
        ("opt", list(&[array(&[1, 2]), vec![7], vec![0xc0]])),
        ("params", map(&[("b", array(&[3])), ("w", text("PLACEHOLDER://params.w"))])),
        (
            "target",
            map(&[("driver", text("zarr")), ("kvstore", map(&[("path", text("/old/place/target/"))]))]),
        ),
    ]);
    let mut files: Files = [("checkpoint".to_owned(), tree)].into();
    files.extend(zarr("params.w", &[4, 5, 6]));
    files.extend(zarr("target", &[8]));
    files
}

fn score(entry: Entry, files: Files) -> Score {
    let (source, context) = (MemorySource::new(entry, files), MemoryContext::default());
    Orbax.probe(&source, &context).unwrap().unwrap()
}

#[test]
fn small_arrays_are_in_a_file_next_to_the_others() {
    let expected = [
        ("cfg.lr", "F64", &0.5_f64.to_le_bytes()[..]),
        ("opt.0", "U8", &[1, 2]),
        ("opt.1", "I64", &[7, 0, 0, 0, 0, 0, 0, 0]),
        ("params.b", "U8", &[3]),
        ("params.w", "U8", &[4, 5, 6]),
        ("target", "U8", &[8]),
    ];
    for entry in [Entry::Folder, Entry::File("checkpoint".to_owned())] {
        assert_ne!(score(entry.clone(), files()), Score::NO);
        with_view(&Orbax, &MemorySource::new(entry, files()), &[], |view| {
            let mut names: Vec<&str> = view.catalog().tensors().iter().map(|tensor| &*tensor.name).collect();
            names.sort_unstable();
            assert_eq!(names, expected.map(|(name, ..)| name));
            for (name, dtype, bytes) in expected {
                let (found, _, elements) = view.tensor_named(name).unwrap();
                assert_eq!((&*found, &*elements), (dtype, bytes), "{name}");
            }
            let nodes = view.catalog().tree().nodes();
            assert!(nodes.iter().any(|node| node.as_text() == Some("adam")));
            assert!(nodes.iter().any(|node| node.kind == NodeKind::LIST && node.children.len() == 3));
            assert_eq!(view.catalog().losses(), []);
        })
        .unwrap();
    }
    // The aggregate file is part of a run's steps, or is stored without its arrays' folders.
    let of_step =
        |step: &'static str| files().into_iter().map(move |(name, bytes)| (format!("{step}/{name}"), bytes));
    let run: Files = of_step("checkpoint_9").chain(of_step("checkpoint_10")).collect();
    with_view(&Orbax, &MemorySource::folder(run), &[], |view| assert_eq!(view.catalog().tensors().len(), 6))
        .unwrap();
    let alone: Files = files().into_iter().take(1).collect();
    assert_ne!(score(Entry::Folder, alone.clone()), Score::NO);
    assert_eq!(score(Entry::File("checkpoint".to_owned()), alone.clone()), Score::NO);
    let error = with_view(&Orbax, &MemorySource::folder(alone), &[], |_| ()).unwrap_err();
    assert!(error.kind() == ErrorKind::Malformed && error.to_string().contains("params.w"), "{error}");
    // The contents are TensorFlow's text file with the same name, a pickle, an empty file and a
    // truncated map.
    for other in [&b"model_checkpoint_path: \"m\""[..], b"\x80\x04\x95", b"", b"\x81"] {
        let files: Files = [("checkpoint".to_owned(), other.to_vec())].into();
        assert_eq!(score(Entry::Folder, files), Score::NO, "{other:?}");
    }
}

#[test]
fn a_tree_and_its_file_are_one() {
    let leaf = |keys: &[(&str, u8)], kind: &str| {
        let keys: Vec<_> =
            keys.iter().map(|(key, kind)| format!(r#"{{"key": "{key}", "key_type": {kind}}}"#)).collect();
        format!(
            r#""{}": {{"key_metadata": [{}], "value_metadata": {{"value_type": "{kind}", "skip_deserialize": false}}}}"#,
            keys.len() * 1000 + keys[0].len() + kind.len(),
            keys.join(", ")
        )
    };
    let leaves =
        [leaf(&[("params", 2), ("w", 2)], "jax.Array"), leaf(&[("more", 2)], "np.ndarray")].join(", ");
    let mut with_tree = files();
    with_tree.insert("_METADATA".to_owned(), format!(r#"{{"tree_metadata": {{{leaves}}}}}"#).into_bytes());
    with_tree.extend(zarr("more", &[9]));
    with_tree.extend(zarr("forgotten", &[9]));
    with_view(&Orbax, &MemorySource::folder(with_tree), &[], |view| {
        assert_eq!(view.catalog().tensors().len(), 7);
        assert_eq!(view.tensor_named("more").unwrap().2, [9]);
        let [loss] = view.catalog().losses() else { panic!("{:?}", view.catalog().losses()) };
        assert!(loss.kind == LossKind::Tensor && loss.what == "forgotten", "{loss}");
    })
    .unwrap();
}

/// Writes a checkpoint with a typed key.
pub(crate) fn typed_key() -> MemoryOutput {
    let made = write(
        &Orbax,
        |catalog| {
            let storage = catalog.storage(Storage::inline([7; 16]))?;
            let key = catalog.tensor("rng", Dtype::U32, &[2, 2], storage, 0)?;
            catalog.attribute(key, "random_key_impl", Value::text("threefry2x32"))?;
            let other = catalog.tensor("w", Dtype::U8, &[16], storage, 0)?;
            catalog.attribute(other, "unit", Value::text("mm"))
        },
        &[],
        &Target::Folder,
    );
    made.unwrap()
}

#[test]
fn typed_keys_stay_typed() {
    let made = typed_key();
    let [loss] = made.layout.losses() else { panic!("{:?}", made.layout.losses()) };
    assert!(loss.kind == LossKind::Attribute && loss.what == "w: unit", "{loss}");
    let metadata: serde_json::Value = serde_json::from_slice(&made.files["_METADATA"]).unwrap();
    assert_eq!(metadata["tree_metadata"]["('rng',)"]["value_metadata"]["value_type"], "jax.Array");
    let sharding: serde_json::Value = serde_json::from_slice(&made.files["_sharding"]).unwrap();
    assert!(sharding["cm5n"].is_string(), "{sharding}");
    let source = MemorySource::folder(made.files);
    with_view(&Orbax, &source, &[], |view| {
        let attributes = |name: &str| {
            let found = view.catalog().tensors().iter().find(|tensor| tensor.name == name);
            found.unwrap().attributes.clone()
        };
        assert_eq!(attributes("rng")["random_key_impl"].as_text(), Some("threefry2x32"));
        assert!(attributes("w").is_empty());
    })
    .unwrap();
    // A checkpoint without typed keys does not contain the files for typed keys.
    let context = MemoryContext::default();
    let source = MemorySource::folder(files());
    let view = MemoryView::read(&Orbax, &[], &source, &context).unwrap();
    let again = memory::write(&Orbax, &[], &view, &Target::Folder, &context).unwrap();
    assert!(again.files.keys().all(|name| name != "_sharding" && !name.starts_with("array_metadatas")));
}
