//! Writes tensors from other formats as Flax files.

use tensorferry_flax::Flax;
use tensorferry_sdk::memory::{self, MemoryOutput, pairs};
use tensorferry_sdk::{
    CatalogSink, Dtype, Entry, ErrorKind, LossKind, MemoryContext, MemorySource, Node, NodeKind, Result,
    Storage, Target, TensorId,
};
use tensorferry_test_kit::tensors::{with_view, write_file};

fn one(
    catalog: &mut dyn CatalogSink,
    name: &str,
    dtype: Dtype,
    shape: &[u64],
    bytes: &[u8],
) -> Result<TensorId> {
    let storage = catalog.storage(Storage::inline(bytes))?;
    catalog.tensor(name, dtype, shape, storage, 0)
}

/// Reads a file and writes it again.
pub(crate) fn again(bytes: &[u8], options: &[(&str, &str)]) -> Result<MemoryOutput> {
    with_view(&Flax, &MemorySource::file("in.msgpack", bytes), &[], |view| {
        let target = Target::File("out.msgpack".to_owned());
        memory::write(&Flax, &pairs(options), view, &target, &MemoryContext::default())
    })?
}

#[test]
fn names_become_nested_maps() {
    let output = write_file(
        &Flax,
        |catalog| {
            one(catalog, "a.w", Dtype::F32, &[2], &[0, 0, 0, 0, 0, 0, 0x80, 0x3f])?;
            one(catalog, "a.b", Dtype::I8, &[], &[7]).map(drop)
        },
        &[],
        "m.msgpack",
    )
    .unwrap();
    let w = b"\xc7\x15\x01\x93\x91\x02\xa7float32\xc4\x08\0\0\0\0\0\0\x80\x3f";
    let expected =
        [b"\x81\xa1a\x82\xa1w".as_slice(), w, b"\xa1b\xc7\x0a\x01\x93\x90\xa4int8\xc4\x01\x07"].concat();
    assert_eq!(output.files["m.msgpack"].escape_ascii().to_string(), expected.escape_ascii().to_string());
}

#[test]
fn a_name_that_is_a_part_of_another_keeps_both() {
    let names = ["a.b", "a", "a.b.c", "", "x..y", ".z", "a.b.d"];
    let fill = |catalog: &mut dyn CatalogSink| {
        names
            .into_iter()
            .zip(0..)
            .try_for_each(|(name, n)| one(catalog, name, Dtype::U8, &[1], &[n]).map(drop))
    };
    let bytes = write_file(&Flax, fill, &[], "m.msgpack").unwrap().files.remove("m.msgpack").unwrap();
    with_view(&Flax, &MemorySource::file("m.msgpack", bytes), &[], |view| {
        for (name, n) in names.into_iter().zip(0..) {
            assert_eq!(view.tensor_named(name).unwrap().2, [n], "{name}");
        }
    })
    .unwrap();
}

/// The file is `{"a.b": x, "a": {"b": y}}`, so two tensors have the name `a.b`.
#[test]
fn keys_that_are_one_name_when_they_are_joined_are_told_apart() {
    let array = |n: u8| [&b"\xc7\x0c\x01\x93\x91\x01\xa5uint8\xc4\x01"[..], &[n]].concat();
    let bytes = [&b"\x82\xa3a.b"[..], &array(1), b"\xa1a\x81\xa1b", &array(2)].concat();
    with_view(&Flax, &MemorySource::file("m.msgpack", bytes), &[], |view| {
        assert_eq!(view.tensor_named("a.b").unwrap().2, [1]);
        assert_eq!(view.tensor_named("a.b#2").unwrap().2, [2]);
        let losses: Vec<_> = view.catalog().losses().iter().map(|loss| (loss.kind, &*loss.what)).collect();
        assert_eq!(losses, [(LossKind::Name, "a.b")]);
    })
    .unwrap();
}

#[test]
fn chunks_of_any_size_hold_the_same() {
    let bytes: Vec<u8> = (0..2 * 3 * 5 * 7 * 2).map(|n| u8::try_from(n % 251).unwrap()).collect();
    let fill = |catalog: &mut dyn CatalogSink| {
        one(catalog, "w", Dtype::I16, &[2, 3, 5, 7], &bytes)?;
        one(catalog, "e", Dtype::I16, &[0, 3], &[]).map(drop)
    };
    for size in [1, 2, 3, 10, 14, 16, 22, 70, 141, 210, 418, 419, 420] {
        let output = write_file(&Flax, fill, &[("chunk_size", &size.to_string())], "m.msgpack").unwrap();
        let read =
            with_view(&Flax, &MemorySource::file("m.msgpack", &*output.files["m.msgpack"]), &[], |view| {
                view.tensor_named("w").unwrap()
            });
        assert_eq!(read.unwrap(), ("I16".to_owned(), vec![2, 3, 5, 7], bytes.clone()), "{size}");
    }
    assert_eq!(
        write_file(&Flax, fill, &[("chunk_size", "2GiB")], "m.msgpack").unwrap_err().kind(),
        ErrorKind::Usage
    );
}

#[test]
fn shards_are_named_and_indexed_as_on_the_hub() {
    let fill = |catalog: &mut dyn CatalogSink| {
        one(catalog, "a.x", Dtype::U8, &[4], &[1; 4])?;
        one(catalog, "a.y", Dtype::U8, &[4], &[2; 4]).map(drop)
    };
    let output = write_file(&Flax, fill, &[("max_shard_size", "4")], "flax_model.msgpack").unwrap();
    let names: Vec<&str> = output.files.keys().map(String::as_str).collect();
    let (first, second) = ("flax_model-00001-of-00002.msgpack", "flax_model-00002-of-00002.msgpack");
    assert_eq!(names, [first, second, "flax_model.msgpack.index.json"]);
    let index: serde_json::Value =
        serde_json::from_slice(&output.files["flax_model.msgpack.index.json"]).unwrap();
    assert_eq!(index["weight_map"], serde_json::json!({"a/x": first, "a/y": second}));
    let mut files: std::collections::BTreeMap<String, Vec<u8>> = output.files.clone().into_iter().collect();
    with_view(&Flax, &MemorySource::new(Entry::Folder, files.clone()), &[], |view| {
        assert_eq!(view.tensor_named("a.y").unwrap().2, [2; 4]);
    })
    .unwrap();
    files.remove(second);
    let refused = with_view(&Flax, &MemorySource::new(Entry::Folder, files), &[], |_| ()).unwrap_err();
    assert!(refused.to_string().contains(second), "{refused}");
}

#[test]
fn state_of_other_formats_is_kept_or_named() {
    let output = write_file(
        &Flax,
        |catalog| {
            let tensor = one(catalog, "model.l.w", Dtype::U8, &[1], &[9])?;
            let mut node = |node: Node| catalog.node(node);
            let (key, value) = (node(Node::text("l.w"))?, node(Node::tensor(tensor))?);
            let model = node(Node::map("collections.OrderedDict", &[(key, value)]))?;
            let (one, two) = (node(Node::int(1))?, node(Node::float(0.5))?);
            let pair = node(Node::container(NodeKind::TUPLE, "", [one, two]))?;
            let object = node(Node::container(NodeKind::OBJECT, "argparse.Namespace", []))?;
            let keys = [node(Node::text("model"))?, node(Node::text("betas"))?, node(Node::text("args"))?];
            let root = node(Node::map("", &[(keys[0], model), (keys[1], pair), (keys[2], object)]))?;
            catalog.root(root)
        },
        &[],
        "m.msgpack",
    )
    .unwrap();
    let bytes = &output.files["m.msgpack"];
    let text = bytes.escape_ascii().to_string();
    assert!(text.starts_with(r"\x83\xa5model\x81\xa1l\x81\xa1w\xc7"), "{text}");
    assert!(
        text.ends_with(r"\xa5betas\x82\xa10\x01\xa11\xcb?\xe0\x00\x00\x00\x00\x00\x00\xa4args\xc0"),
        "{text}"
    );
    let losses: Vec<&str> = output.layout.losses().iter().map(|loss| &*loss.what).collect();
    assert_eq!(losses, ["betas", "args"]);
    assert_eq!(again(bytes, &[]).unwrap().files["out.msgpack"], *bytes);
}
