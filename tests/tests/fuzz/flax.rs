//! Tests that the Flax reader handles arbitrary bytes without a panic.

use crate::drive_any;
use tensorferry_tests::fixtures::cases;

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_documents() {
    let files = cases("flax", "")
        .into_iter()
        .map(|case| case.input())
        .filter(|file| !file.to_str().unwrap().ends_with(".json"));
    let seeds: Vec<Vec<u8>> = files.map(|file| std::fs::read(file).unwrap()).collect();
    assert_eq!(seeds.len(), 16);
    drive_any("flax", &seeds);
}
