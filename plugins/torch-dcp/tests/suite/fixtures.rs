//! Reads a checkpoint that torch wrote, and compares names, dtypes, shapes and digests with the
//! expected values.

use tensorferry_sdk::MemoryContext;
use tensorferry_sdk::memory::MemoryView;
use tensorferry_test_kit::fixtures::{all_facts, all_facts_of, cases, expected};
use tensorferry_torch_dcp::TorchDcp;

#[test]
fn dcp_single_is_exact() {
    let case = cases("torch", "dcp_single").remove(0);
    let expected = expected(&case);
    let files = [".metadata", "__0_0.distcp"]
        .map(|name| (name.to_owned(), std::fs::read(case.join("dcp").join(name)).unwrap()));
    let (source, context) = (crate::common::source(files.into()), MemoryContext::default());
    let view = MemoryView::read(&TorchDcp, &[], &source, &context).unwrap();
    assert_eq!(view.catalog().tensors().len(), 16);
    assert_eq!(all_facts(&view).unwrap(), all_facts_of(&expected));
    assert!(view.catalog().losses().is_empty());
}
