//! Tests that the ONNX reader handles arbitrary bytes without a panic, in models with and without
//! external data.

use crate::drive_any;
use tensorferry_tests::fixtures::{Case, cases};

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_models() {
    let models = cases("onnx", "");
    // Omit the deepest model, which is large and whose mutations are all similar.
    let seeds: Vec<Vec<u8>> = models
        .iter()
        .map(Case::input)
        .map(|file| std::fs::read(file).unwrap())
        .filter(|bytes| bytes.len() < 4096)
        .collect();
    assert_eq!(seeds.len(), 42);
    drive_any("onnx", &seeds);
    drive_any("onnx_external", &seeds);
}
