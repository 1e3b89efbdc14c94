//! The SDK's conformance suite over the stages.

use crate::common::Run;
use tensorferry_deepspeed::DeepSpeed;
use tensorferry_sdk::Entry;
use tensorferry_sdk::conformance::{Sample, check};

#[test]
fn deepspeed_conforms() {
    let sample = |stage| {
        Sample::set(Entry::Folder, Run::of_stage(stage).files())
            .holding(&["a", "b", "c", "tied", "frozen", "mean"])
    };
    let report = check(&DeepSpeed, &[sample(2), sample(3)]);
    assert!(report.damaged > 10_000, "{report:?}");
}
