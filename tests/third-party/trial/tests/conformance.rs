//! The SDK's conformance suite for each way of writing.

use ferry_trial::{Trial, sample};
use tensorferry_sdk::conformance::{Preset, Sample, check};
use tensorferry_sdk::{Entry, Side};

#[test]
fn every_way_conforms() {
    for way in ["grid", "carry", "encode", "tiles"] {
        let sample =
            Sample::set(Entry::File("sample.trial".to_owned()), sample()).holding(&["grid", "strings"]);
        let report = check(&Preset::new(Trial).with(Side::Writer, "data", way), &[sample]);
        assert!(report.damaged > 0 && report.written > 0, "{way}: {report:?}");
    }
}
