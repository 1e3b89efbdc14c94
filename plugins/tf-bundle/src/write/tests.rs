#![expect(clippy::unwrap_used, reason = "tests")]

use crate::testing::{Sample, f32s, index, strings};
use tensorferry_proto::DataType;
use tensorferry_proto::masked_crc::mask;
use tensorferry_sdk::*;

#[test]
fn numbers_lie_in_the_order_of_their_keys() {
    let sample = Sample::of(&[
        ("b", Dtype::F32, vec![2], f32s(&[1.0, 2.0])),
        ("a", Dtype::I8, vec![1, 3], vec![1, 2, 3]),
        ("empty", Dtype::F32, vec![0, 3], vec![]),
        ("scalar", Dtype::F64, vec![], 1_f64.to_le_bytes().to_vec()),
    ]);
    let output = sample.write_file(&[]);
    let data = &output.files["m.data-00000-of-00001"];
    assert_eq!(*data, [&[1, 2, 3][..], &f32s(&[1.0, 2.0]), &1_f64.to_le_bytes()].concat());
    let (header, entries) = index(&output, "m.index");
    assert_eq!(header.num_shards, 1);
    let facts: Vec<_> = entries.iter().map(|(key, e)| (&**key, e.dtype, e.offset, e.size)).collect();
    let [float, double, byte] = [DataType::DtFloat, DataType::DtDouble, DataType::DtInt8].map(i32::from);
    assert_eq!(
        facts,
        [("a", byte, 0, 3), ("b", float, 3, 8), ("empty", float, 0, 0), ("scalar", double, 11, 8)]
    );
    assert_eq!(entries[0].1.crc32c, mask(crc32c::crc32c(&[1, 2, 3])));
    assert_eq!(entries[2].1.crc32c, 0xa282_ead8);
    assert_eq!(entries[2].1.shape.as_ref().unwrap().dim.len(), 2);
    assert_eq!(output.layout.files().last().unwrap().role, Role::Index);
}

#[test]
fn tied_tensors_share_one_place() {
    let tensors = [("m", Dtype::U8, vec![2], vec![1, 2]), ("s", Dtype::STR, vec![2], strings(&["x", "yz"]))];
    let sample = Sample { tied: vec![("a", 0), ("z", 0), ("t", 1)], ..Sample::of(&tensors) };
    let output = sample.write_file(&[]);
    assert_eq!(output.files["m.data-00000-of-00001"][..2], [1, 2]);
    let (_, entries) = index(&output, "m.index");
    let places: Vec<_> = entries.iter().map(|(key, e)| (&**key, e.shard_id, e.offset, e.size)).collect();
    assert_eq!(places, [("a", 0, 0, 2), ("m", 0, 0, 2), ("s", 0, 2, 9), ("t", 0, 2, 9), ("z", 0, 0, 2)]);
}

#[test]
fn a_few_strings_lie_among_the_numbers() {
    let sample = Sample::of(&[
        ("n", Dtype::U8, vec![1], vec![7]),
        ("none", Dtype::STR, vec![0], vec![]),
        ("s", Dtype::STR, vec![], strings(&["hello"])),
        ("t", Dtype::STR, vec![2, 1], strings(&["", "ab"])),
    ]);
    let output = sample.write_file(&[]);
    let data = &output.files["m.data-00000-of-00001"];
    assert_eq!(
        (data[5], &data[10..15], &data[15..17], &data[21..]),
        (5, &b"hello"[..], &[0, 2][..], &b"ab"[..])
    );
    let (_, entries) = index(&output, "m.index");
    let sizes: Vec<_> = entries.iter().map(|(_, e)| (e.shard_id, e.offset, e.size)).collect();
    assert_eq!(sizes, [(0, 0, 1), (0, 1, 4), (0, 5, 10), (0, 15, 8)]);
    // The checksums that TensorFlow computes for an empty string tensor and for the scalar "hello".
    assert_eq!(entries[1].1.crc32c, 1_678_557_686);
    assert_eq!(entries[2].1.crc32c, 700_506_348);
}

#[test]
fn many_strings_have_a_data_file_of_their_own() {
    let long = vec![b'x'; 1 << 20];
    let sample = Sample::of(&[
        ("n", Dtype::U8, vec![1], vec![7]),
        ("s", Dtype::STR, vec![], strings(&["hello"])),
        ("t", Dtype::STR, vec![2], strings(&[&b""[..], &long])),
        ("u", Dtype::STR, vec![], strings(&["after"])),
    ]);
    let output = sample.write_file(&[]);
    let (header, entries) = index(&output, "m.index");
    assert_eq!(header.num_shards, 2);
    let sizes: Vec<_> = entries.iter().map(|(_, e)| (e.shard_id, e.offset, e.size)).collect();
    let of_long = 1 + 3 + 4 + (1 << 20);
    assert_eq!(sizes, [(0, 0, 1), (0, 1, 10), (1, 0, of_long), (1, of_long, 10)]);
    let data = &output.files["m.data-00001-of-00002"];
    assert_eq!(entries[2].1.crc32c, {
        let lengths = [0_u32.to_le_bytes(), (1_u32 << 20).to_le_bytes()].concat();
        let rest = &data[4..usize::try_from(of_long).unwrap()];
        mask(crc32c::crc32c_append(crc32c::crc32c(&lengths), rest))
    });
}

#[test]
fn data_is_split_as_told() {
    let tensor = |name| (name, Dtype::U8, vec![4], vec![1; 4]);
    let sample = Sample::of(&["a", "b", "c", "d"].map(tensor));
    for given in [("shards", "2"), ("max_shard_size", "8")] {
        let output = sample.write_file(&[given]);
        let (header, entries) = index(&output, "m.index");
        assert_eq!(header.num_shards, 2);
        let places: Vec<_> = entries.iter().map(|(_, e)| (e.shard_id, e.offset)).collect();
        assert_eq!(places, [(0, 0), (0, 4), (1, 0), (1, 4)]);
        assert_eq!(output.files.len(), 3);
    }
}

#[test]
fn a_bundle_of_nothing_has_its_files() {
    let output = Sample::default().write_file(&[]);
    assert!(output.files["m.data-00000-of-00001"].is_empty());
    assert_eq!(index(&output, "m.index").0.num_shards, 1);
}

#[test]
fn what_tensorflow_has_no_place_for_is_omitted() {
    let sample = Sample::of(&[
        ("", Dtype::U8, vec![1], vec![1]),
        ("\0x", Dtype::U8, vec![1], vec![1]),
        ("_CHECKPOINTABLE_OBJECT_GRAPH", Dtype::U8, vec![1], vec![1]),
        ("_TENSORFERRY_METADATA", Dtype::U8, vec![1], vec![1]),
        ("i4", Dtype::I4, vec![2], vec![0x21]),
        ("c32", Dtype::C32, vec![1], vec![0; 4]),
        ("deep", Dtype::U8, vec![1; 255], vec![0]),
        ("odd", Dtype::U8, vec![1 << 62, 4, 0], vec![]),
        ("kept", Dtype::U8, vec![1], vec![1]),
    ]);
    let output = sample.write_file(&[("graph", "none")]);
    let (_, entries) = index(&output, "m.index");
    assert_eq!(entries.len(), 1);
    let losses = output.layout.losses();
    assert_eq!(losses.len(), 8, "{losses:?}");
    assert!(losses.iter().all(|loss| loss.kind == LossKind::Tensor));
    let why = losses.iter().find(|loss| loss.what == "i4").unwrap();
    // Elements smaller than a byte cannot be cast, so the message must not suggest a cast.
    assert!(!why.why.contains("cast"), "{why}");
}

#[test]
fn other_metadata_has_an_entry_of_its_own() {
    let mut sample = Sample::of(&[("a", Dtype::U8, vec![1], vec![1])]);
    sample.metadata.push(("format", "tf".to_owned()));
    assert_eq!(index(&sample.write_file(&[]), "m.index").1.len(), 1);
    sample.metadata.push(("note", "ü".to_owned()));
    let output = sample.write_file(&[]);
    let (_, entries) = index(&output, "m.index");
    assert_eq!(entries[0].0, "_TENSORFERRY_METADATA");
    let data = &output.files["m.data-00000-of-00001"];
    let json = r#"{"metadata":{"note":"ü"},"origin":"sample","version":1}"#;
    assert_eq!(data[5..5 + json.len()], *json.as_bytes());
}

#[test]
fn the_state_file_is_only_written_where_none_can_be() {
    let sample = Sample::of(&[("a", Dtype::U8, vec![1], vec![1])]);
    let mut new = MemoryContext::default();
    new.output_is_new = true;
    let old = MemoryContext::default();
    let has = |given: &[(&str, &str)], target: Target, context| {
        sample.write(given, &target, context).unwrap().files.contains_key("checkpoint")
    };
    assert!(has(&[], Target::Folder, &new));
    assert!(!has(&[], Target::Folder, &old));
    assert!(has(&[("latest", "true")], Target::Folder, &old));
    assert!(!has(&[], Target::File("m".to_owned()), &new));
    assert!(has(&[("latest", "true")], Target::File("m.index".to_owned()), &old));
}
