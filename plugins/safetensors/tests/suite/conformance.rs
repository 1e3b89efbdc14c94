//! Runs the SDK's conformance suite on this format.

use crate::common::{bytes_file, file};
use std::collections::BTreeMap;
use tensorferry_safetensors::Safetensors;
use tensorferry_sdk::Entry;
use tensorferry_sdk::conformance::{Sample, check};

fn set() -> BTreeMap<String, Vec<u8>> {
    let index = r#"{"metadata":{"total_size":3},"weight_map":{"a":"m-00001-of-00002.safetensors","b":"m-00002-of-00002.safetensors"}}"#;
    BTreeMap::from([
        ("m-00001-of-00002.safetensors".to_owned(), bytes_file("{}", &[("a", &[1, 2])])),
        ("m-00002-of-00002.safetensors".to_owned(), bytes_file("{}", &[("b", &[3])])),
        ("m.safetensors.index.json".to_owned(), index.as_bytes().to_vec()),
    ])
}

#[test]
fn safetensors_conforms() {
    let several = file(
        r#"{"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"s":{"dtype":"BF16","shape":[],"data_offsets":[16,18]},"e":{"dtype":"I64","shape":[0],"data_offsets":[18,18]}}"#,
        &[7; 18],
    );
    let tied = bytes_file(r#"{"format":"pt","lm_head":"wte"}"#, &[("wte", &[1, 2, 3])]);
    let samples = [
        Sample::file("several.safetensors", several).holding(&["w", "s", "e"]),
        Sample::file("tied.safetensors", tied).holding(&["wte", "lm_head"]),
        Sample::set(Entry::File("m.safetensors.index.json".to_owned()), set()).holding(&["a", "b"]),
        Sample::set(Entry::Folder, set()).holding(&["a", "b"]),
    ];
    let report = check(&Safetensors, &samples);
    assert!(report.damaged > 1000 && report.written > 100, "{report:?}");
    assert_eq!(report.refused, Vec::<String>::new());
}
