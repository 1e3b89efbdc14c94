//! Tests all containers of PyTorch files except the plain zip archive. The tests read files that
//! torch wrote (`tests/files/make.py`) and compare the results exactly. They also damage the files,
//! and insert calls that ferry must not make.

use crate::common::{catalog, read_all};
use serde_json::Value;
use std::fs;
use std::path::Path;
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{CatalogView, LossKind, MemoryContext, MemorySource, Node};
use tensorferry_test_kit::fixtures::facts;
use tensorferry_test_kit::pickle::{
    call, dict, global, int, ints, list, pickle, storage, tensor, text, tuple,
};
use tensorferry_test_kit::tar::tar;
use tensorferry_test_kit::zip::Zip;
use tensorferry_torch::Torch;

fn file(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name)).unwrap()
}

fn fixture(case: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/torch").join(case);
    fs::read(path.join("model.pt")).unwrap()
}

#[test]
fn files_of_real_torch_are_exact() {
    let expected: Value = serde_json::from_slice(&file("expected.json")).unwrap();
    let mut seen = 0;
    for (name, tensors) in expected.as_object().unwrap() {
        let (source, context) = (MemorySource::file(name, file(name)), MemoryContext::default());
        let view = MemoryView::read(&Torch, &[], &source, &context).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut found: Vec<&str> = view.catalog().tensors().iter().map(|tensor| &*tensor.name).collect();
        let mut wanted: Vec<&str> = tensors.as_object().unwrap().keys().map(String::as_str).collect();
        found.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{name}");
        for tensor in wanted {
            assert_eq!(facts(&view, tensor), tensors[tensor], "{name}: {tensor}");
            seen += 1;
        }
    }
    assert_eq!(seen, 47, "tensors seen");
}

#[test]
fn ties_and_what_is_not_carried_are_said() {
    for (name, tied, lost) in [
        ("tar.pt", ["state.a.weight", "state.a.tied"], &[][..]),
        (
            "script.pt",
            ["embedding.weight", "head.weight"],
            &[
                (LossKind::Tensor, "tensors.0"),
                (LossKind::Tensor, "tensors.1"),
                (LossKind::Tensor, "by_name.a"),
                (LossKind::Graph, "code"),
            ],
        ),
        (
            "trace.pt",
            ["embedding.weight", "head.weight"],
            &[(LossKind::Graph, "code"), (LossKind::State, "traced_inputs")],
        ),
        ("export.pt2", ["embedding.weight", "head.weight"], &[(LossKind::Graph, "models/model.json")]),
    ] {
        let (source, context) = (MemorySource::file(name, file(name)), MemoryContext::default());
        let view = MemoryView::read(&Torch, &[], &source, &context).unwrap();
        let ids = tied.map(|tied| view.tensor_ids().find(|&id| view.tensor(id).name == tied).unwrap());
        assert_eq!(view.tied_to(ids[0]), view.tied_to(ids[1]), "{name}");
        let losses: Vec<_> = view.catalog().losses().iter().map(|loss| (loss.kind, &*loss.what)).collect();
        assert_eq!(losses, lost, "{name}");
    }
    assert_eq!(catalog(&file("script.pt")).unwrap().metadata()["extra/note.txt"], "hello");
}

/// Builds an archive of a TorchScript module with one tensor `w` and the additional attributes in
/// `more`.
fn script(more: &[(Vec<u8>, Vec<u8>)]) -> Zip {
    let weight = tensor(storage("FloatStorage", "0", 4), 0, &[4], &[1]);
    let attributes = [&[(text("w"), weight)], more].concat();
    let module = [&global("__torch__", "M")[..], b")\x81", &dict(&attributes), b"b"].concat();
    let mut zip = Zip::torch(&pickle(&module), &[&[7; 16]]);
    zip.add("constants.pkl", &pickle(&tuple(&[])));
    zip
}

#[test]
fn typed_lists_of_torchscript_are_lists() {
    let tag = [&global("torch.jit._pickle", "restore_type_tag")[..], b"("].concat();
    let (of_type, weight) =
        ([&text("t")[..], b"tR"].concat(), tensor(storage("FloatStorage", "0", 4), 0, &[4], &[1]));
    // A value inside many nested type tags is still read as one value.
    let value = [tag.repeat(10_000), list(&[weight]), of_type.repeat(10_000)].concat();
    let catalog = catalog(&script(&[(text("many"), value)]).bytes()).unwrap();
    let names: Vec<&str> = catalog.tensors().iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(names, ["w", "many.0"]);
}

/// The module has a dict `{"1": w, 1: w}`, and an attribute with the name that ferry uses for the
/// constants.
#[test]
fn places_of_torchscript_may_look_alike() {
    let weight = || tensor(storage("FloatStorage", "0", 4), 0, &[4], &[1]);
    let twins = dict(&[(text("1"), weight()), (int(1), weight())]);
    let mut zip = script(&[(text("d"), twins), (text("constants"), weight())]);
    zip.entries.retain(|entry| !entry.central.name.ends_with(b"constants.pkl"));
    zip.add("constants.pkl", &pickle(&tuple(&[weight()])));
    zip.add("constants/0", &[7; 16]);
    let catalog = catalog(&zip.bytes()).unwrap();
    let names: Vec<&str> = catalog.tensors().iter().map(|tensor| &*tensor.name).collect();
    assert_eq!(names, ["w", "d.1", "d.1#2", "constants", "constants.0"]);
    let tree = catalog.tree();
    let root = tree.root().and_then(|root| tree.get(root)).unwrap();
    let keys = root.entries().map(|(key, _)| tree.get(key).and_then(Node::as_text).unwrap());
    assert_eq!(keys.collect::<Vec<_>>(), ["w", "d.1", "d.1#2", "constants", "constants#2"]);
}

/// Returns a pickled call that would create a file if ferry made the call.
fn payload() -> Vec<u8> {
    call(&global("os", "system"), &[text("touch /tmp/ferry-was-here")])
}

/// Builds a legacy stream: pickles of the magic number, the protocol version 1001, the system
/// information, the object and the keys, followed by the storages.
fn stream(object: &[u8], keys: &[&str], data: &[u8]) -> Vec<u8> {
    let keys: Vec<_> = keys.iter().map(|key| text(key)).collect();
    let magic = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    let pickles: [&[u8]; 5] = [magic, &int(1001), &dict(&[]), object, &list(&keys)];
    [pickles.map(pickle).concat(), data.to_vec()].concat()
}

#[test]
fn calls_are_listed_in_every_container_and_nothing_runs() {
    let weight = || tensor(storage("FloatStorage", "0", 4), 0, &[4], &[1]);
    let object = dict(&[(text("w"), weight()), (text("x"), payload())]);
    let bytes = [&4_i64.to_le_bytes()[..], &[7; 16]].concat();
    let in_tar = dict(&[(text("w"), [text("10"), b"Q".to_vec()].concat()), (text("x"), payload())]);
    for (container, bytes) in [
        ("zip", Zip::torch(&pickle(&object), &[&[7; 16]]).bytes()),
        ("legacy", stream(&object, &["0"], &bytes)),
        ("tar", one_tensor(&in_tar)),
        ("script", script(&[(text("x"), payload())]).bytes()),
    ] {
        let catalog = catalog(&bytes).unwrap_or_else(|error| panic!("{container}: {error}"));
        assert_eq!(catalog.tensors().len(), 1, "{container}");
        assert!(catalog.globals().iter().any(|global| global == "os.system"), "{container}");
        let loss = catalog.losses().iter().find(|loss| loss.what == "x").unwrap();
        assert!(loss.why.contains("os.system"), "{container}: {loss}");
        assert_eq!(read_all(&bytes).unwrap()[0].1, [7; 16], "{container}");
    }
    // ferry must reject a file that contains a call in place of a required value.
    let refused = [
        [pickle(b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"), pickle(&payload())].concat(),
        stream(&object, &["0"], &[]),
        tar(&[
            ("pickle", pickle(&in_tar)),
            ("storages", pickle(&payload())),
            ("tensors", pickle(&payload())),
        ]),
    ];
    for bytes in refused {
        assert!(catalog(&bytes).is_err());
    }
    assert!(!Path::new("/tmp/ferry-was-here").exists());
}

/// Builds a tar archive that contains this object and one tensor with the key 10.
fn one_tensor(object: &[u8]) -> Vec<u8> {
    let storages = [
        pickle(&int(1)),
        pickle(&tuple(&[int(1), text("cpu"), global("torch", "FloatStorage")])),
        4_i64.to_le_bytes().to_vec(),
        vec![7; 16],
        pickle(b"]"),
    ];
    let tensors = [
        pickle(&int(1)),
        pickle(&tuple(&[int(10), int(1), global("torch", "FloatTensor")])),
        [1_i32, 0].map(i32::to_le_bytes).concat(),
        [4_i64, 1, 0].map(i64::to_le_bytes).concat(),
    ];
    tar(&[("pickle", pickle(object)), ("tensors", tensors.concat()), ("storages", storages.concat())])
}

#[test]
fn broken_streams_are_typed_errors() {
    let object = |len: i64| dict(&[(text("w"), tensor(storage("FloatStorage", "0", len), 0, &[4], &[1]))]);
    let data = |count: i64, len: usize| [&count.to_le_bytes()[..], &vec![7; len]].concat();
    let good = stream(&object(4), &["0"], &data(4, 16));
    assert_eq!(read_all(&good).unwrap(), [("w".to_owned(), vec![7; 16])]);
    for (word, bytes) in [
        ("wrong length", stream(&object(4), &["0"], &data(5, 20))),
        ("wrong length", stream(&object(4), &["0"], &data(-1, 16))),
        ("wrong length", stream(&object(4), &["0"], &data(i64::MAX, 16))),
        ("ends too early", stream(&object(4), &["0"], &data(4, 15))),
        ("ends too early", stream(&object(1 << 40), &["0"], &data(1 << 40, 16))),
        ("does not fit in 64 bits", stream(&object(i64::MAX), &["0"], &data(i64::MAX, 16))),
        ("does not identify a storage", stream(&object(-1), &["0"], &data(4, 16))),
        ("listed twice", stream(&object(4), &["0", "0"], &[data(4, 16), data(4, 16)].concat())),
        ("does not refer to it", stream(&object(4), &["0", "1"], &data(4, 16))),
        ("is missing", stream(&object(4), &[], &[])),
        ("past the end of the file", stream(&object(4), &["0"], &[1, 2, 3])),
        ("ends inside", good[..40].to_vec()),
    ] {
        let error = catalog(&bytes).unwrap_err().to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
}

#[test]
fn bytes_behind_a_stream_are_passed_over_with_a_note() {
    let object = dict(&[(text("w"), tensor(storage("FloatStorage", "0", 4), 0, &[4], &[1]))]);
    let data = [&4_i64.to_le_bytes()[..], &[7; 16], b"junk"].concat();
    let source = MemorySource::file("model.pt", stream(&object, &["0"], &data));
    let context = MemoryContext::default();
    let view = MemoryView::read(&Torch, &[], &source, &context).unwrap();
    assert_eq!(view.tensor_named("w").unwrap().2, [7; 16]);
    assert_eq!(context.notes(), ["model.pt: 4 bytes after the last storage are ignored, as in torch"]);
}

#[test]
fn old_streams_have_views_of_storages_and_classes_with_their_source() {
    let persistent = |items: &[Vec<u8>]| [&tuple(items)[..], b"Q"].concat();
    let part = |offset: i64, len: i64| {
        let view = tuple(&[text("9"), int(offset), int(len)]);
        let class = global("torch", "FloatStorage");
        persistent(&[text("storage"), class, text("0"), text("cpu"), int(4), view])
    };
    let data: Vec<u8> = (0..16).collect();
    let of = |value: &[u8]| stream(value, &["0"], &[&4_i64.to_le_bytes()[..], &data].concat());
    let read = read_all(&of(&dict(&[(text("v"), tensor(part(1, 3), 1, &[2], &[1]))]))).unwrap();
    assert_eq!(read, [("v".to_owned(), data[8..].to_vec())]);
    for (offset, len) in [(1, 1), (2, 3), (i64::MAX, 1)] {
        let view = dict(&[(text("v"), tensor(part(offset, len), 1, &[2], &[1]))]);
        assert!(catalog(&of(&view)).is_err(), "{len} at {offset}");
    }
    let class =
        persistent(&[text("module"), global("models", "Net"), text("net.py"), text("class Net: pass")]);
    let module =
        [&class[..], b")\x81", &dict(&[(text("w"), tensor(part(0, 4), 0, &[4], &[1]))]), b"b"].concat();
    let catalog = catalog(&of(&module)).unwrap();
    assert_eq!(catalog.tensors()[0].name, "w");
    assert!(catalog.globals().iter().any(|global| global == "models.Net"));
}

#[test]
fn broken_tar_archives_are_typed_errors() {
    let object = dict(&[(text("w"), [text("10"), b"Q".to_vec()].concat())]);
    let good = one_tensor(&object);
    assert_eq!(read_all(&good).unwrap(), [("w".to_owned(), vec![7; 16])]);
    let unknown = one_tensor(&dict(&[(text("w"), [text("11"), b"Q".to_vec()].concat())]));
    let storages = |body: &[Vec<u8>]| {
        tar(&[("pickle", pickle(&object)), ("tensors", pickle(&int(0))), ("storages", body.concat())])
    };
    let root = || pickle(&tuple(&[int(1), text("cpu"), global("torch", "FloatStorage")]));
    let four = || [4_i64.to_le_bytes().to_vec(), vec![7; 16]].concat();
    let view = |items: &[i64]| pickle(&list(&[ints(items)]));
    for (word, bytes) in [
        ("tensor or storage 11 is missing", unknown),
        ("no member", tar(&[("pickle", pickle(&object))])),
        ("two members", tar(&[("pickle", pickle(&object)), ("pickle", pickle(&object))])),
        ("key 1 is duplicated", storages(&[pickle(&int(2)), root(), four(), root(), four(), pickle(b"]")])),
        ("key 1 is duplicated", storages(&[pickle(&int(1)), root(), four(), view(&[1, 1, 0, 4])])),
        ("missing storage 7", storages(&[pickle(&int(1)), root(), four(), view(&[2, 7, 0, 4])])),
        ("ends", storages(&[pickle(&int(i64::MAX))])),
        ("negative", storages(&[pickle(&int(1)), root(), (-4_i64).to_le_bytes().to_vec()])),
        ("ends too early", storages(&[pickle(&int(1)), root(), (1_i64 << 50).to_le_bytes().to_vec()])),
        ("64 bits", storages(&[pickle(&int(1)), root(), i64::MAX.to_le_bytes().to_vec()])),
        ("no member", good[..good.len() / 2].to_vec()),
        ("ends too early", good[..good.len() - 1500].to_vec()),
    ] {
        let error = catalog(&bytes).unwrap_err().to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
}

/// Builds an exported archive that contains this weights config and one record of 16 bytes.
fn exported(config: &str) -> Vec<u8> {
    let mut zip = Zip::default();
    zip.add("archive_format", b"pt2");
    zip.add("models/model.json", b"{}");
    zip.add("data/weights/weight_0", &[7; 16]);
    zip.add("data/weights/model_weights_config.json", config.as_bytes());
    zip.add(".data/version", b"6\n");
    zip.bytes()
}

fn entry(fields: &str) -> String {
    let meta = r#""sizes": [{"as_int": 2}], "strides": [{"as_int": 1}], "storage_offset": {"as_int": 1}, "requires_grad": false"#;
    format!(
        r#"{{"config": {{"w": {{"path_name": "weight_0", "use_pickle": false, "tensor_meta": {{{fields}, {meta}}}}}}}}}"#
    )
}

#[test]
fn broken_exported_archives_are_typed_errors_or_losses() {
    let read = read_all(&exported(&entry(r#""dtype": 7, "layout": 7"#))).unwrap();
    assert_eq!(read, [("w".to_owned(), vec![7; 8])]);
    for (word, config) in [
        ("not JSON", "{".to_owned()),
        ("not JSON", "[".repeat(100_000)),
        ("no \"config\"", "{}".to_owned()),
        ("missing or invalid fields", r#"{"config": {"w": {}}}"#.to_owned()),
        ("missing or invalid fields", entry(r#""dtype": -7, "layout": 7"#)),
        ("past the end of its storage", entry(r#""dtype": 8, "layout": 7"#)),
        (
            "past the end of its storage",
            entry(r#""dtype": 7, "layout": 7"#)
                .replace(": 1}", ": 9e0}")
                .replace("9e0", "4611686018427387904"),
        ),
        ("63 bits", entry(r#""dtype": 7, "layout": 7"#).replace(": 2}", ": 18446744073709551615}")),
        ("no record", entry(r#""dtype": 7, "layout": 7"#).replace("weight_0", "weight_1")),
        ("no record", entry(r#""dtype": 7, "layout": 7"#).replace("weight_0", "../../archive_format")),
        ("not a PyTorch", entry(r#""dtype": 7, "layout": 7"#).replace("false, \"tensor", "true, \"tensor")),
    ] {
        let error = catalog(&exported(&config)).unwrap_err().to_string();
        assert!(error.contains(word), "{word}: {error}");
    }
    for fields in [r#""dtype": 99, "layout": 7"#, r#""dtype": 7, "layout": 1"#] {
        let catalog = catalog(&exported(&entry(fields))).unwrap();
        assert!(catalog.tensors().is_empty());
        assert_eq!((catalog.losses()[0].kind, &*catalog.losses()[0].what), (LossKind::Tensor, "w"));
    }
}

#[test]
fn any_truncation_and_any_flipped_bit_is_survived() {
    let mut read = 0;
    for bytes in [
        file("tar.pt"),
        file("script.pt"),
        file("export.pt2"),
        fixture("legacy_protocol2"),
        fixture("legacy_protocol5"),
    ] {
        let step = 1 + bytes.len() / 600;
        for at in (0..bytes.len()).step_by(step) {
            read += usize::from(read_all(&bytes[..at]).is_ok());
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            read += usize::from(read_all(&flipped).is_ok());
        }
    }
    // Most of the flipped bits are in values, names or padding, so the file can still be read.
    assert!(read > 100, "{read}");
}

#[test]
fn a_key_of_bytes_is_named_as_python_shows_it() {
    let key = call(&global("_codecs", "encode"), &[text("a.b"), text("latin1")]);
    let value = tensor(storage("FloatStorage", "0", 1), 0, &[1], &[1]);
    let file = Zip::torch(&pickle(&dict(&[(key, value)])), &[&[0; 4]]).bytes();
    let catalog = catalog(&file).unwrap();
    assert_eq!(catalog.tensors()[0].name, "b'a.b'");
}
