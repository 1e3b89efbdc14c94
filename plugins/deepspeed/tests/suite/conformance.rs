//! Runs the SDK's conformance suite on each stage.

use crate::common::Run;
use tensorferry_deepspeed::DeepSpeed;
use tensorferry_sdk::Entry;
use tensorferry_sdk::conformance::{Sample, check};

/// Checks one stage. Each stage has its own test, because a check takes seconds and tests run in
/// parallel.
fn conforms(stage: u8) {
    let sample = Sample::set(Entry::Folder, Run::of_stage(stage).files());
    let report = check(&DeepSpeed, &[sample.holding(&["a", "b", "c", "tied", "frozen", "mean"])]);
    assert!(report.damaged > 5_000, "{report:?}");
}

#[test]
fn stage_2_conforms() {
    conforms(2);
}

#[test]
fn stage_3_conforms() {
    conforms(3);
}
