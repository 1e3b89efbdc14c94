//! Runs the SDK's conformance suite, which every format must pass. `ferry plugin test` runs the
//! suite on the built library.

use ferry_tray::TrayFormat;
use tensorferry_sdk::conformance::{Sample, check};

#[test]
fn it_keeps_every_rule() {
    let bytes = *include_bytes!("../sample/sample.tray");
    let report = check(&TrayFormat, &[Sample::file("sample.tray", bytes).holding(&["weight", "step"])]);
    // Otherwise the test could pass without having checked anything.
    assert!(report.damaged > 100 && report.written > 20, "{report:?}");
}
