//! The checkpoint that real torch wrote: exact names, dtypes, shapes and digests.

use crate::common::facts::{cases, expected, facts, facts_of};
use tensorferry_sdk::MemoryContext;
use tensorferry_sdk::memory::MemoryView;
use tensorferry_torch_dcp::TorchDcp;

#[test]
fn dcp_single_is_exact() {
    let case = cases("torch", "dcp_single").remove(0);
    let expected = expected(&case);
    let files = [".metadata", "__0_0.distcp"]
        .map(|name| (name.to_owned(), std::fs::read(case.join("dcp").join(name)).unwrap()));
    let (source, context) = (crate::common::source(files.into()), MemoryContext::default());
    let view = MemoryView::read(&TorchDcp, &[], &source, &context).unwrap();
    let wanted = expected["tensors"].as_object().unwrap();
    assert_eq!(view.catalog().tensors().len(), wanted.len());
    assert_eq!(wanted.len(), 16);
    for (name, tensor) in wanted {
        assert_eq!(facts(&view, name), facts_of(tensor), "{name}");
    }
    assert!(view.catalog().losses().is_empty());
}
