//! The checkpoint that real torch wrote: exact names, dtypes, shapes and digests.

use sha2::{Digest, Sha256};
use std::path::Path;
use tensorferry_sdk::MemoryContext;
use tensorferry_sdk::memory::MemoryView;
use tensorferry_torch_dcp::TorchDcp;

#[test]
fn dcp_single_is_exact() {
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/torch/dcp_single");
    let expected: serde_json::Value =
        serde_json::from_slice(&std::fs::read(case.join("expected.json")).unwrap()).unwrap();
    let files = [".metadata", "__0_0.distcp"]
        .map(|name| (name.to_owned(), std::fs::read(case.join("dcp").join(name)).unwrap()));
    let (source, context) = (crate::common::source(files.into()), MemoryContext::default());
    let view = MemoryView::read(&TorchDcp, &[], &source, &context).unwrap();
    let wanted = expected["tensors"].as_object().unwrap();
    assert_eq!(view.catalog().tensors().len(), wanted.len());
    assert_eq!(wanted.len(), 16);
    for (name, tensor) in wanted {
        let (dtype, shape, bytes) = view.tensor_named(name).unwrap();
        assert_eq!(dtype, tensor["dtype"].as_str().unwrap(), "{name}");
        assert_eq!(serde_json::json!(shape), tensor["shape"], "{name}");
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, tensor["sha256"].as_str().unwrap(), "{name}");
    }
    assert!(view.catalog().losses().is_empty());
}
