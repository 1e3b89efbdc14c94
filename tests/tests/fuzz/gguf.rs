//! Tests that the GGUF reader handles arbitrary bytes without a panic.

use crate::drive_any;
use tensorferry_tests::fixtures::cases;

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_files() {
    let seeds: Vec<_> = cases("gguf", "")
        .iter()
        .map(|case| std::fs::read(case.folder.join(case.expected["files"][0].as_str().unwrap())).unwrap())
        .collect();
    assert_eq!(seeds.len(), 47);
    drive_any("gguf", &seeds);
}
