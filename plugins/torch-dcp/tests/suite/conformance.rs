//! Runs the SDK's conformance suite on both variants of the format.

use crate::common::Sample;
use tensorferry_sdk::Entry;
use tensorferry_sdk::conformance::{self, check};
use tensorferry_test_kit::Files;
use tensorferry_torch_dcp::TorchDcp;

#[test]
fn torch_dcp_conforms() {
    let table = conformance::Sample::set(Entry::Folder, Sample::new().files()).holding(&["model.w"]);
    let header = br#"{"__metadata__":{"DCP_SHARDING_INFO":"{\"w\":{\"saved_offsets\":[0]}}"},"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#;
    let shard = [&(header.len() as u64).to_le_bytes()[..], header, b"ab"].concat();
    let shards = Files::from([("shard-00001-model-00001-of-00001.safetensors".to_owned(), shard)]);
    let shards = conformance::Sample::set(Entry::Folder, shards).holding(&["w"]);
    let report = check(&TorchDcp, &[table, shards]);
    assert!(report.damaged > 5000, "{report:?}");
}
