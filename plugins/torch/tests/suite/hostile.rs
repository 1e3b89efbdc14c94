//! Tests archives that torch would never write. Each archive is invalid in one way, and must
//! produce a typed error without a panic, in bounded time and memory.

use crate::common::{catalog, error, read_all, with_limits};
use std::time::{Duration, Instant};
use tensorferry_sdk::{ErrorKind, Limits, LossKind, NodeKind};
use tensorferry_test_kit::pickle::{
    call, dict, global, int, ints, lazy_tensor, list, pickle, storage, tensor, tensor_v3, text, tuple,
};
use tensorferry_test_kit::zip::{Zip, Zip64};

fn float() -> Vec<u8> {
    tensor(storage("FloatStorage", "0", 4), 0, &[2, 2], &[2, 1])
}

/// Builds a state dict with one tensor of 16 bytes.
fn model() -> Zip {
    Zip::torch(&pickle(&dict(&[(text("w"), float())])), &[&[7; 16]])
}

fn of(value: &[u8]) -> Vec<u8> {
    Zip::torch(&pickle(value), &[&[7; 16]]).bytes()
}

/// A function that makes an archive invalid in one way.
type Tamper = fn(&mut Zip);

fn tampered(tamper: impl FnOnce(&mut Zip)) -> Vec<u8> {
    let mut zip = model();
    tamper(&mut zip);
    zip.bytes()
}

#[test]
fn the_plain_archive_is_read() {
    let catalog = catalog(&model().bytes()).unwrap();
    assert_eq!(catalog.tensors()[0].name, "w");
    assert!(catalog.losses().is_empty());
    assert_eq!(
        catalog.globals(),
        ["collections.OrderedDict", "torch.FloatStorage", "torch._utils._rebuild_tensor_v2"]
    );
}

#[test]
fn two_places_of_a_zip_that_disagree_are_refused() {
    let cases: [(&str, Tamper); 28] = [
        ("names that are equal", |zip| drop(zip.add("data.pkl", b"x").clone())),
        ("only in case", |zip| drop(zip.add("DATA.PKL", b"x").clone())),
        ("only in case", |zip| drop(zip.add("data/0/", b"").clone())),
        ("different names", |zip| zip.entry("data/0").local.name = b"m/data/1".to_vec()),
        ("different names", |zip| zip.entry("data/0").local.name = b"m/data/00".to_vec()),
        ("different compression methods", |zip| zip.entry("data/0").local.method = 8),
        ("different lengths", |zip| zip.entry("data/0").local.len = 15),
        ("different lengths", |zip| zip.entry("data/0").local.stored_len = 0),
        ("different CRCs", |zip| zip.entry("data/0").local.crc = 1),
        ("different flags", |zip| zip.entry("data/0").local.flags = 0x800),
        ("encrypted", |zip| zip.entry("data/0").central.flags = 1),
        ("encrypted", |zip| zip.entry("data/0").central.flags = 0x20),
        ("encrypted", |zip| zip.entry("data/0").central.flags = 0x40),
        ("compression method", |zip| zip.entry("data/0").central.method = 12),
        ("compressed", |zip| {
            let entry = zip.entry("data/0");
            (entry.local.method, entry.central.method) = (8, 8);
        }),
        ("two lengths", |zip| zip.entry("data/0").central.len = 15),
        ("overlaps", |zip| zip.entry("version").offset = Some(1)),
        ("point to a local header", |zip| zip.entry("data.pkl").offset = Some(1)),
        ("reaches past the end", |zip| zip.entry("version").offset = Some(0x7fff_ffff)),
        ("zip directory", |zip| {
            let entry = zip.entry("version");
            for header in [&mut entry.local, &mut entry.central] {
                (header.len, header.stored_len) = (1 << 20, 1 << 20);
            }
        }),
        ("another disk", |zip| zip.entry("version").disk = 1),
        ("several disks", |zip| zip.disk = 1),
        ("too short for its entries", |zip| zip.count = Some(0xfff0)),
        ("extra bytes after the last entry", |zip| zip.count = Some(2)),
        ("does not end where", |zip| zip.zip64 = Some(Zip64 { more_offset: 1, ..Zip64::default() })),
        ("disagree", |zip| zip.zip64 = Some(Zip64 { more_entries: 1, ..Zip64::default() })),
        ("extra bytes after the last entry", |zip| zip.after_directory = b"PK\x05\x05\0\0".to_vec()),
        ("compressed", |zip| {
            let entry = zip.entry("data.pkl");
            (entry.local.method, entry.central.method) = (8, 8);
        }),
    ];
    for (index, (word, tamper)) in cases.into_iter().enumerate() {
        let message = error(&tampered(tamper));
        // If a zip64 offset differs from the offset in the end record, the reader reports the
        // difference before it finds the gap.
        let other = index == 24 && message.contains("disagree");
        assert!(message.contains(word) || other, "case {index}: {message}");
        assert!(message.contains("model.pt") && message.contains("offset"), "case {index}: {message}");
    }
}

#[test]
fn names_stay_inside_one_root() {
    for name in ["m/../x", "m/./x", "m//x", "/m/x", "m/a\\b", "m/a\0b", "n/x", "x", "mm/x", "m"] {
        let bytes = tampered(|zip| {
            let entry = zip.add("x", b"");
            entry.local.name = name.as_bytes().to_vec();
            entry.central.name = name.as_bytes().to_vec();
        });
        assert!(catalog(&bytes).is_err(), "{name:?}");
    }
    let bytes = tampered(|zip| zip.entry("version").central.name = b"m/\xff".to_vec());
    assert!(error(&bytes).contains("UTF-8"));
    let folders = tampered(|zip| {
        zip.add("", b"");
        zip.add("data/", b"");
    });
    assert!(catalog(&folders).is_ok(), "entries of folders are not records");
}

#[test]
fn zip64_and_descriptors_are_read() {
    let bytes = tampered(|zip| {
        zip.zip64 = Some(Zip64::default());
        zip.junk = b"junk behind the end record is what torch takes too".to_vec();
        let entry = zip.entry("data/0");
        (entry.local.flags, entry.central.flags) = (8, 8);
        (entry.local.len, entry.local.stored_len) = (0, 0);
        let wide = [1_u16, 16].map(u16::to_le_bytes).concat();
        entry.central.extra = [&wide[..], &16_u64.to_le_bytes(), &16_u64.to_le_bytes()].concat();
        (entry.central.len, entry.central.stored_len) = (u32::MAX, u32::MAX);
    });
    assert_eq!(read_all(&bytes).unwrap()[0].1, [7; 16]);
    let before = [b"junk", &model().bytes()[..]].concat();
    assert!(catalog(&before).is_err());
}

#[test]
fn entries_are_bounded_before_they_are_held() {
    let mut limits = Limits::default();
    limits.entries = 2;
    let error = with_limits(&model().bytes(), limits).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
}

#[test]
fn records_say_what_they_should() {
    let cases: [(&str, Tamper); 8] = [
        ("no record \"version\"", |zip| drop(zip.entries.pop())),
        ("does not contain a version", |zip| zip.entry("version").bytes = b"x\n".to_vec()),
        ("does not contain a version", |zip| zip.entry("version").bytes = b"0\n".to_vec()),
        ("single word is too long", |zip| drop(zip.add("byteorder", &[b' '; 5000]).clone())),
        ("byte order", |zip| drop(zip.add("byteorder", b"little\n").clone())),
        ("the pickle ends inside", |zip| drop(zip.add("constants.pkl", b"").clone())),
        ("program", |zip| drop(zip.add("archive_format", b"pt2").clone())),
        ("newer than supported", |zip| drop(zip.add(".data/version", b"11\n").clone())),
    ];
    for (word, tamper) in cases {
        let message = error(&tampered(tamper));
        assert!(message.contains(word), "{message}");
    }
    let crc = tampered(|zip| {
        let entry = zip.entry("data.pkl");
        (entry.local.crc, entry.central.crc) = (1, 1);
    });
    assert!(error(&crc).contains("CRC-32"), "a pickle's checksum is checked before it is parsed");
    let rest = [&pickle(&float())[..], b"."].concat();
    assert!(error(&Zip::torch(&rest, &[&[7; 16]]).bytes()).contains("extra bytes after the pickle"));
}

#[test]
fn tensors_that_torch_refuses_are_errors() {
    let four = || storage("FloatStorage", "0", 4);
    let v2 = global("torch._utils", "_rebuild_tensor_v2");
    let persistent = |id: Vec<u8>| tensor([&id[..], b"Q"].concat(), 0, &[1], &[1]);
    for (value, word) in [
        (tensor(four(), 1, &[2, 2], &[2, 1]), "past the end"),
        (tensor(four(), 0, &[2], &[4]), "past the end"),
        (tensor(four(), i64::MAX, &[1], &[1]), "past the end"),
        (tensor(four(), 0, &[i64::MAX, i64::MAX], &[1, 1]), "64"),
        (tensor(four(), 0, &[3], &[i64::MAX]), "past the end"),
        (tensor(four(), -1, &[1], &[1]), "not negative"),
        (tensor(four(), 0, &[-1], &[1]), "not negative"),
        (tensor(four(), 0, &[1], &[-1]), "not negative"),
        (tensor(four(), 0, &[1, 1], &[1]), "differ in length"),
        (tensor(storage("FloatStorage", "0", 3), 0, &[1], &[1]), "wrong length"),
        (tensor(storage("DoubleStorage", "0", 4), 0, &[1], &[1]), "wrong length"),
        (tensor(storage("FloatStorage", "0", i64::MAX), 0, &[1], &[1]), "does not fit"),
        (tensor(storage("FloatStorage", "9", 4), 0, &[1], &[1]), "no record \"data/9\""),
        (tensor(storage("FloatStorage", "../0", 4), 0, &[1], &[1]), "no record"),
        (tensor(int(1), 0, &[1], &[1]), "a storage"),
        (persistent(text("0")), "persistent ID"),
        (persistent(tuple(&[text("module"), text("x"), text("y")])), "persistent ID"),
        (call(&v2, &[four()]), "number of arguments"),
        (call(&v2, &[four(), int(0), ints(&[1]), int(1), b"\x89N".to_vec()]), "strides"),
        (call(&v2, &[four(), int(0), list(&[int(1)]), ints(&[1]), b"\x89N".to_vec()]), "sizes"),
        (tensor_v3("0", 16, &[9], &[1], "uint16"), "past the end"),
        (call(&global("torch._utils", "_rebuild_qtensor"), &[]), "number of arguments"),
        (call(&global("torch._utils", "_rebuild_sparse_tensor"), &[]), "number of arguments"),
        (call(&global("torch._utils", "_rebuild_nested_tensor"), &[]), "number of arguments"),
    ] {
        let message = error(&of(&dict(&[(text("w"), value)])));
        assert!(message.contains(word), "{word}: {message}");
        assert!(message.contains("tensor \"w\""), "{message}");
    }
}

#[test]
fn empty_tensors_may_lie_anywhere() {
    let value = tensor(storage("FloatStorage", "0", 4), i64::MAX, &[3, 0, 1 << 40], &[1 << 40, 1 << 40, 1]);
    assert_eq!(read_all(&of(&value)).unwrap(), [(String::new(), Vec::new())]);
}

#[test]
fn a_broadcast_bomb_is_bounded() {
    for value in [
        tensor(storage("FloatStorage", "0", 4), 0, &[1 << 21, 1 << 21], &[0, 0]),
        lazy_tensor(storage("FloatStorage", "0", 4), &[1 << 21, 1 << 21], &[0, 0], &["neg"]),
    ] {
        let error = catalog(&of(&value)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    }
}

#[test]
fn what_is_no_plain_tensor_is_a_loss_and_the_others_are_read() {
    let function = |name: &str| call(&global("torch._utils", name), &[]);
    let changed = [&float()[..], b"}b"].concat();
    let unknown = tensor(storage("NewStorage", "0", 4), 0, &[1], &[1]);
    let packed = tensor_v3("0", 16, &[2, 2], &[1, 2], "float4_e2m1fn_x2");
    let dtype = tensor_v3("0", 16, &[2], &[1], "float1");
    let bits = lazy_tensor(storage("FloatStorage", "0", 4), &[4], &[1], &["conj"]);
    let lost = [
        function("_rebuild_meta_tensor_no_storage"),
        function("_rebuild_wrapper_subclass"),
        changed,
        unknown,
        packed,
        dtype,
        bits,
        storage("FloatStorage", "0", 4),
    ];
    let mut entries: Vec<_> =
        lost.iter().enumerate().map(|(i, value)| (text(&format!("t{i}")), value.clone())).collect();
    entries.push((text("good"), float()));
    let catalog = catalog(&of(&dict(&entries))).unwrap();
    assert_eq!(catalog.tensors().len(), 1);
    assert_eq!(catalog.tensors()[0].name, "good");
    let listed: Vec<_> = catalog.losses().iter().map(|loss| (loss.kind, loss.what.clone())).collect();
    let expected: Vec<_> = (0..lost.len()).map(|index| (LossKind::Tensor, format!("t{index}"))).collect();
    assert_eq!(listed, expected);
}

#[test]
fn subclasses_are_read_as_plain_tensors() {
    let arguments = tuple(&[
        storage("FloatStorage", "0", 4),
        int(0),
        ints(&[4]),
        ints(&[1]),
        b"\x89".to_vec(),
        b"N".to_vec(),
    ]);
    let function = global("torch._utils", "_rebuild_tensor_v2");
    let value = call(
        &global("torch._tensor", "_rebuild_from_type_v2"),
        &[function, global("mine", "Tensor"), arguments, dict(&[])],
    );
    let catalog = catalog(&of(&value)).unwrap();
    assert_eq!(catalog.tensors().len(), 1);
    assert!(catalog.losses()[0].why.contains("mine.Tensor"));
}

#[test]
fn big_endian_storages_are_swapped_by_their_dtype() {
    let big = |value: &[u8]| {
        let mut zip = Zip::torch(&pickle(value), &[&[0, 1, 0, 2]]);
        zip.add("byteorder", b"big");
        zip.bytes()
    };
    let short = tensor(storage("ShortStorage", "0", 2), 0, &[2], &[1]);
    assert_eq!(read_all(&big(&short)).unwrap()[0].1, [1, 0, 2, 0]);
    // For an untyped storage, the size of the units whose bytes must be reversed is unknown.
    // One-byte elements need no byte reversal.
    assert!(error(&big(&tensor_v3("0", 4, &[2], &[1], "uint16"))).contains("big-endian"));
    assert_eq!(read_all(&big(&tensor_v3("0", 4, &[4], &[1], "float8_e5m2"))).unwrap()[0].1, [0, 1, 0, 2]);
    let bytes = tensor(storage("ByteStorage", "0", 4), 0, &[4], &[1]);
    assert!(error(&big(&tuple(&[short, bytes.clone()]))).contains("big-endian"));
    let int = tensor(storage("IntStorage", "0", 1), 0, &[1], &[1]);
    assert!(catalog(&of_four(&tuple(&[bytes, int]))).is_ok(), "little-endian storages can have two dtypes");
}

fn of_four(value: &[u8]) -> Vec<u8> {
    Zip::torch(&pickle(value), &[&[0, 1, 0, 2]]).bytes()
}

#[test]
fn lazy_bits_are_resolved_and_stay_tied() {
    let neg = || lazy_tensor(storage("FloatStorage", "0", 4), &[2, 2], &[1, 2], &["neg"]);
    let stored: Vec<u8> = [1_f32, 2.0, 3.0, 4.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    let bytes = Zip::torch(&pickle(&tuple(&[neg(), neg()])), &[&stored]).bytes();
    let expected: Vec<u8> = [-1_f32, -3.0, -2.0, -4.0].iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(read_all(&bytes).unwrap()[1].1, expected);
    let catalog = catalog(&bytes).unwrap();
    assert_eq!(catalog.ties()[1], catalog.ties()[0]);
}

#[test]
fn names_are_paths_and_collisions_are_told() {
    let inner = dict(&[(text("b"), float())]);
    let keys = dict(&[
        (text("a.b"), float()),
        (text("a"), inner),
        (int(3), list(&[float(), tuple(&[float()])])),
        (b"\x88".to_vec(), float()),
        (b"N".to_vec(), float()),
        (tuple(&[int(1), text("x")]), float()),
        (text(""), dict(&[(text(""), float())])),
    ]);
    let catalog = catalog(&of(&keys)).unwrap();
    let names: Vec<&str> = catalog.tensors().iter().map(|tensor| tensor.name.as_str()).collect();
    assert_eq!(names, ["a.b", "a.b#2", "3.0", "3.1.0", "True", "None", "(1, 'x')", "."]);
    assert_eq!(catalog.losses().len(), 1);
    assert_eq!((catalog.losses()[0].kind, &*catalog.losses()[0].what), (LossKind::Name, "a.b"));
    // Each occurrence of the value becomes a separate tensor, which is tied to the first tensor.
    assert!(catalog.ties().iter().all(|tie| tie.0 == 0));
}

#[test]
fn shared_containers_appear_under_each_name() {
    let shared = [&dict(&[(text("w"), float())])[..], b"q\x05"].concat();
    let value = dict(&[(text("model"), shared), (text("ema"), b"h\x05".to_vec())]);
    let names: Vec<String> = read_all(&of(&value)).unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["model.w", "ema.w"]);
}

#[test]
fn cycles_are_cut_and_told() {
    let cyclic = b"]q\x01h\x01a".to_vec();
    let object = [&call(&global("m", "C"), &[])[..], b"q\x02}", &text("self")[..], b"h\x02sb"].concat();
    let value = dict(&[(text("c"), cyclic), (text("o"), object), (text("w"), float())]);
    let catalog = catalog(&of(&value)).unwrap();
    assert_eq!(catalog.tensors().len(), 1);
    let cut: Vec<&str> =
        catalog.losses().iter().filter(|l| l.why.contains("itself")).map(|l| &*l.what).collect();
    assert_eq!(cut, ["c.0", "o.self"]);
}

#[test]
fn bombs_of_references_end_in_a_limit_soon() {
    let levels = |leaf: Vec<u8>, depth: u8| {
        let mut body = [&leaf[..], b"q\x00"].concat();
        for level in 0..depth {
            body.extend(b"](");
            body.extend([b'h', level].repeat(10));
            body.extend([b'e', b'q', level + 1]);
        }
        of(&[b"(", &body[..], b"t"].concat())
    };
    let start = Instant::now();
    let harmless = catalog(&levels(b"]".to_vec(), 200)).unwrap();
    assert!(harmless.tree().len() < 1000, "a value without tensors is one node");
    let error = catalog(&levels(float(), 12)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    let deep = of(&[&b"]".repeat(100_000)[..], &b"a".repeat(99_999)].concat());
    assert_eq!(catalog(&deep).unwrap_err().kind(), ErrorKind::Limit);
    let long = [text(&"k".repeat(60_000)), b"q\x01".to_vec()].concat();
    let names = of(&dict(&[(long, dict(&[(b"h\x01".to_vec(), float())]))]));
    assert_eq!(catalog(&names).unwrap_err().kind(), ErrorKind::Limit);
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn the_tree_keeps_what_is_not_a_tensor() {
    let parameter = call(
        &global("torch._utils", "_rebuild_parameter"),
        &[float(), b"\x88".to_vec(), call(&global("collections", "OrderedDict"), &[])],
    );
    let ordered = [
        &call(&global("collections", "OrderedDict"), &[])[..],
        b"(",
        &text("p"),
        &parameter,
        b"u}",
        &text("_metadata"),
        &int(1),
        b"sb",
    ]
    .concat();
    let catalog = catalog(&of(&ordered)).unwrap();
    let tree = catalog.tree();
    let root = tree.get(tree.root().unwrap()).unwrap();
    assert_eq!(root.kind, NodeKind::ATTRIBUTED);
    let map = tree.get(root.children[0]).unwrap();
    assert_eq!((map.kind, &*map.class), (NodeKind::MAP, "collections.OrderedDict"));
    let parameter = tree.get(map.children[1]).unwrap();
    assert_eq!((parameter.kind, &*parameter.class), (NodeKind::OBJECT, "torch._utils._rebuild_parameter"));
    let arguments = tree.get(parameter.children[0]).unwrap();
    assert!(tree.get(arguments.children[0]).unwrap().as_tensor().is_some());
    assert_eq!(catalog.tensors()[0].name, "p");
    assert!(catalog.losses().is_empty(), "{:?}", catalog.losses());
    let lone = b"X\x03\0\0\0\xed\xb3\xbf".to_vec();
    let strange = catalog_of(&dict(&[(lone.clone(), float()), (text("s"), lone)]));
    assert_eq!(strange.tensors()[0].name, "\\udcff");
    assert_eq!(strange.losses().len(), 2);
}

#[test]
fn what_is_set_on_a_tensor_is_its_attribute() {
    let function = global("torch._utils", "_rebuild_tensor_v2");
    let arguments =
        [storage("FloatStorage", "0", 4), int(0), ints(&[4]), ints(&[1]), b"\x88".to_vec(), b"N".to_vec()];
    let catalog = catalog_of(&call(&function, &arguments));
    let tree = catalog.tree();
    let root = tree.get(tree.root().unwrap()).unwrap();
    assert_eq!(root.kind, NodeKind::ATTRIBUTED);
    assert!(tree.get(root.children[0]).unwrap().as_tensor().is_some());
    let attributes = tree.get(root.children[1]).unwrap();
    assert_eq!(tree.get(attributes.children[0]).unwrap().as_text(), Some("requires_grad"));
    assert_eq!(tree.get(attributes.children[1]).unwrap().as_bool(), Some(true));
}

fn catalog_of(value: &[u8]) -> tensorferry_sdk::Catalog {
    catalog(&of(value)).unwrap()
}

#[test]
fn many_small_tensors_take_no_time() {
    const TENSORS: usize = 50_000;
    let value = |index: usize| tensor(storage("FloatStorage", &index.to_string(), 2), 0, &[2], &[1]);
    let entries: Vec<_> =
        (0..TENSORS).map(|index| (text(&format!("layer.{index}.weight")), value(index))).collect();
    let bytes = Zip::torch(&pickle(&dict(&entries)), &vec![&[7; 8][..]; TENSORS]).bytes();
    let start = Instant::now();
    assert_eq!(catalog(&bytes).unwrap().tensors().len(), TENSORS);
    let took = start.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    println!("{TENSORS} tensors: {took:?}");
}

#[test]
fn the_side_record_comes_back() {
    let bytes = tampered(|zip| {
        let record = br#"{"version": 1, "origin": "safetensors", "metadata": {"format": "pt"}}"#;
        drop(zip.add(".data/tensorferry.json", record).clone());
    });
    let catalog = catalog(&bytes).unwrap();
    assert_eq!(catalog.origin(), "safetensors");
    assert_eq!(catalog.metadata()["format"], "pt");
    let bytes = tampered(|zip| drop(zip.add(".data/tensorferry.json", b"{").clone()));
    assert!(error(&bytes).contains("side record"));
}

/// Builds an archive with one value of each kind that the reader handles differently.
fn rich() -> Zip {
    let ordered = || global("collections", "OrderedDict");
    let namespace = [
        &global("argparse", "Namespace")[..],
        b")\x81",
        &dict(&[(text("lr"), b"G\x3f\xf8\0\0\0\0\0\0".to_vec())]),
        b"b",
    ]
    .concat();
    let set = call(&global("__builtin__", "set"), &[list(&[int(1), int(2)])]);
    let value = dict(&[
        (text("w"), float()),
        (text("v"), tensor(storage("FloatStorage", "0", 4), 1, &[2], &[2])),
        (text("n"), lazy_tensor(storage("FloatStorage", "0", 4), &[2, 2], &[1, 2], &["neg"])),
        (text("c"), lazy_tensor(storage("ComplexFloatStorage", "0", 2), &[2], &[1], &["conj", "neg"])),
        (text("u"), tensor_v3("0", 16, &[2, 2], &[2, 1], "float4_e2m1fn_x2")),
        (text("o"), call(&ordered(), &[])),
        (text("a"), namespace),
        (text("s"), set),
        (text("e"), call(&global("builtins", "eval"), &[text("1")])),
        (text("l"), b"]q\x07h\x07a".to_vec()),
        (tuple(&[int(1), text("x")]), b"\x8a\x09\0\0\0\0\0\0\0\0\x01".to_vec()),
    ]);
    Zip::torch(&pickle(&value), &[&[7; 16]])
}

#[test]
fn any_truncation_and_any_flipped_bit_is_survived() {
    let mut zip = rich();
    zip.zip64 = Some(Zip64::default());
    let good = zip.bytes();
    assert_eq!(read_all(&good).unwrap().len(), 5);
    for len in 0..good.len() {
        assert!(catalog(&good[..len]).is_err(), "cut to {len} bytes");
    }
    let mut read = 0;
    for byte in 0..good.len() {
        for bit in 0..8 {
            let mut bad = good.clone();
            bad[byte] ^= 1 << bit;
            read += usize::from(read_all(&bad).is_ok());
        }
    }
    assert!(read > 0, "some bits are never checked: times, versions, storages without a CRC");
}
