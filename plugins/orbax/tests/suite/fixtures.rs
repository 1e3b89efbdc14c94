//! Checkpoints from Orbax and tensorstore, and folders that these programs or ferry must reject.

use tensorferry_orbax::Orbax;
use tensorferry_sdk::MemorySource;
use tensorferry_test_kit::fixtures::{all_facts, all_facts_of, cases, expected, files_below, refused_case};
use tensorferry_test_kit::tensors::with_view;

#[test]
fn every_case_is_read_or_refused() {
    let (mut ok, mut refused) = (0, 0);
    for case in cases("orbax", "") {
        let expected = expected(&case);
        let source = MemorySource::folder(files_below(&case.join(expected["entry"].as_str().unwrap())));
        let read = with_view(&Orbax, &source, &[], all_facts).flatten();
        if expected["expect"] == "ok" {
            let case = case.display();
            assert_eq!(read.unwrap_or_else(|e| panic!("{case}: {e}")), all_facts_of(&expected), "{case}");
            ok += 1;
        } else {
            refused_case(&case, read);
            refused += 1;
        }
    }
    assert_eq!((ok, refused), (12, 17));
}
