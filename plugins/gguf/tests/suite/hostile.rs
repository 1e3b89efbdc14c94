//! Tests of invalid files that are not among the fixtures, and of files that ggml rejects.

use crate::common::{file, key, refusal, tensor, with_view};
use std::collections::BTreeMap;
use tensorferry_sdk::{Entry, ErrorKind, MemorySource, Purpose};

#[test]
fn data_of_two_tensors_does_not_overlap() {
    let both = |second| file(&[], &[tensor("a", &[16], 0, 0), tensor("b", &[4], 0, second)], &[0; 128]);
    let read = |bytes: &[u8]| with_view(&MemorySource::file("m.gguf", bytes), &[], Purpose::SHOW, |_| ());
    assert!(read(&both(64)).is_ok());
    let error = refusal(&both(32));
    assert!(
        error.contains("overlap") && error.contains("tensor \"b\"") && error.contains("after \"a\""),
        "{error}"
    );
    // Empty tensors may have any offset.
    assert!(read(&file(&[], &[tensor("a", &[16], 0, 0), tensor("b", &[0], 0, 32)], &[0; 64])).is_ok());
}

#[test]
fn what_ggml_has_no_room_for_is_refused() {
    let one = |dims: &[u64], kind| refusal(&file(&[], &[tensor("a", dims, kind, 0)], &[0; 64]));
    assert!(one(&[1, 1, 1, 1, 1], 0).contains("too many dimensions"));
    assert!(one(&[32], 9).contains("Q8_1"));
    assert!(one(&[1 << 62, 0], 0).contains("63 bits"));
    for alignment in [0_u32, 3, 48, 128 << 10, 1 << 31] {
        let key = key("general.alignment", 4, &alignment.to_le_bytes());
        assert!(refusal(&file(&[key], &[], &[])).contains("not a valid alignment"));
    }
}

#[test]
fn big_endian_blocks_that_nobody_writes_are_refused_by_name() {
    let swapped = |kind: u32| {
        let name = [&1_u64.to_be_bytes()[..], b"a", &1_u32.to_be_bytes(), &256_u64.to_be_bytes()].concat();
        let head = [b"GGUF\0\0\0\x03", &[1_u64, 0].map(u64::to_be_bytes).concat()[..]].concat();
        let mut bytes = [&head[..], &name, &kind.to_be_bytes(), &[0; 8]].concat();
        bytes.resize(bytes.len().next_multiple_of(32) + 1024, 7);
        bytes
    };
    let error = refusal(&swapped(6));
    assert!(
        error.contains("big-endian") && error.contains("tensor \"a\"") && error.contains("Q5_0"),
        "{error}"
    );
    let q6 = MemorySource::file("m.gguf", swapped(14));
    assert!(with_view(&q6, &[], Purpose::SHOW, |_| ()).is_ok());
}

#[test]
fn a_split_is_whole_or_refused() {
    let (one, other) = ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf");
    let member = |number: u16, count: u16, name: &str| {
        let split = [
            key("split.no", 2, &number.to_le_bytes()),
            key("split.count", 2, &count.to_le_bytes()),
            key("split.tensors.count", 5, &2_i32.to_le_bytes()),
        ];
        file(&split, &[tensor(name, &[2], 0, 0)], &[0; 8])
    };
    let set = |files: &[(&str, Vec<u8>)], entry: Entry, options: &[(&str, &str)]| {
        let files: BTreeMap<_, _> =
            files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.clone())).collect();
        with_view(&MemorySource::new(entry, files), options, Purpose::FLAT, |view| {
            view.catalog().tensors().iter().map(|tensor| tensor.name.clone()).collect::<Vec<_>>()
        })
    };
    let named = || Entry::File(other.to_owned());
    let good = [(one, member(0, 2, "a")), (other, member(1, 2, "b"))];
    for entry in [named(), Entry::Folder, Entry::Prefix("m".to_owned())] {
        assert_eq!(set(&good, entry, &[]).unwrap(), ["a", "b"]);
    }
    assert_eq!(set(&good, named(), &[("shard", "alone")]).unwrap(), ["b"]);
    let refused = |files: &[(&str, Vec<u8>)]| set(files, named(), &[]).unwrap_err();
    let swapped = refused(&[(one, member(1, 2, "a")), (other, member(0, 2, "b"))]);
    assert!(swapped.to_string().contains("split.no contradicts the split"), "{swapped}");
    let more = refused(&[(one, member(0, 2, "a")), (other, member(1, 3, "b"))]);
    assert!(more.to_string().contains("split.count"), "{more}");
    let missing = refused(&good[1..]);
    assert!(missing.to_string().contains(one) && missing.to_string().contains("missing"), "{missing}");
    let fewer = refused(&[
        (one, member(0, 2, "a")),
        (other, file(&[key("split.count", 2, &[2, 0]), key("split.no", 2, &[1, 0])], &[], &[])),
    ]);
    assert!(fewer.to_string().contains("split.tensors.count"), "{fewer}");
    // If the folder contains a second model, the choice is ambiguous.
    let third = [good[0].clone(), good[1].clone(), ("z.gguf", file(&[], &[], &[]))];
    let error = set(&third, Entry::Folder, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains(one) && error.to_string().contains("z.gguf"), "{error}");
    assert!(!error.to_string().contains(other), "{error}");
}
