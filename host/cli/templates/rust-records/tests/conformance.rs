//! What every format owes its host: the SDK's conformance suite. `ferry plugin test` asks the same of the built library.

use ferry_tray::TrayFormat;
use tensorferry_sdk::conformance::{Sample, check};

#[test]
fn it_keeps_every_rule() {
    let bytes = *include_bytes!("../sample/sample.tray");
    let sample = Sample::file("sample.tray", bytes).holding(&["id", "score", "word"]).of_rows(3);
    let report = check(&TrayFormat, &[sample]);
    // Else it could pass because nothing was there to be checked.
    assert!(report.rows == 3 && report.damaged > 100 && report.written > 20, "{report:?}");
}
