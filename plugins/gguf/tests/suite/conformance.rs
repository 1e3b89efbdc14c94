//! Runs the SDK's conformance suite on this format.

use crate::common::{file, key, tensor, text};
use std::collections::BTreeMap;
use tensorferry_gguf::Gguf;
use tensorferry_sdk::Entry;
use tensorferry_sdk::conformance::{Sample, check};

/// Returns a member of a two-file split.
fn member(number: u16, keys: &[Vec<u8>], tensors: &[Vec<u8>], data: &[u8]) -> Vec<u8> {
    let split = [
        key("split.no", 2, &number.to_le_bytes()),
        key("split.count", 2, &2_u16.to_le_bytes()),
        key("split.tensors.count", 5, &2_i32.to_le_bytes()),
    ];
    file(&[&split, keys].concat(), tensors, data)
}

#[test]
fn gguf_conforms() {
    let texts = [&8_u32.to_le_bytes()[..], &2_u64.to_le_bytes(), &text("a"), &text("")].concat();
    let numbers = [&6_u32.to_le_bytes()[..], &1_u64.to_le_bytes(), &0.5_f32.to_le_bytes()].concat();
    let keys = [
        key("general.architecture", 8, &text("llama")),
        key("a.bool", 7, &[1]),
        key("a.texts", 9, &texts),
        key("a.numbers", 9, &numbers),
    ];
    let tensors = [
        tensor("w", &[32, 2], 2, 0),
        tensor("s", &[], 1, 64),
        tensor("e", &[0], 0, 96),
        tensor("b", &[2], 0, 96),
    ];
    let whole = file(&keys, &tensors, &[7; 104]);
    let set = BTreeMap::from([
        ("m-00001-of-00002.gguf".to_owned(), member(0, &keys[..1], &[tensor("a", &[2], 0, 0)], &[1; 8])),
        ("m-00002-of-00002.gguf".to_owned(), member(1, &[], &[tensor("b", &[32], 2, 0)], &[2; 18])),
    ]);
    let samples = [
        Sample::file("whole.gguf", whole).holding(&["w", "s", "e", "b"]),
        Sample::file("vocabulary.gguf", file(&keys, &[], &[])),
        Sample::set(Entry::File("m-00002-of-00002.gguf".to_owned()), set.clone()).holding(&["a", "b"]),
        Sample::set(Entry::Folder, set).holding(&["a", "b"]),
    ];
    let report = check(&Gguf, &samples);
    assert!(report.damaged > 1000 && report.written > 100, "{report:?}");
    assert_eq!(report.refused, Vec::<String>::new());
}
