//! Tests that the safetensors reader handles arbitrary bytes without a panic.

use crate::drive_any;
use tensorferry_tests::fixtures::cases;

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_files() {
    let seeds: Vec<_> = cases("safetensors", "")
        .iter()
        .map(|case| std::fs::read(case.folder.join(case.expected["files"][0].as_str().unwrap())).unwrap())
        .collect();
    assert_eq!(seeds.len(), 14);
    drive_any("safetensors", &seeds);
}
