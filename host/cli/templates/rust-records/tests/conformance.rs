//! Runs the SDK's conformance suite, which every format must pass. `ferry plugin test` runs the
//! suite on the built library.

use ferry_tray::TrayFormat;
use tensorferry_sdk::conformance::{Sample, check};

#[test]
fn it_keeps_every_rule() {
    let bytes = *include_bytes!("../sample/sample.tray");
    let sample = Sample::file("sample.tray", bytes).holding(&["id", "score", "word"]).of_rows(3);
    let report = check(&TrayFormat, &[sample]);
    // Otherwise the test could pass without having checked anything.
    assert!(report.rows == 3 && report.damaged > 100 && report.written > 20, "{report:?}");
}
