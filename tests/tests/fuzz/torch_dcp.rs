//! Tests that the reader of distributed checkpoints handles arbitrary bytes in one of the files
//! without a panic.

use crate::drive;
use tensorferry_tests::fuzz;

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_distributed_checkpoints() {
    let files = fuzz::files_of("torch/dcp_single/dcp");
    assert_eq!(files.len(), 2);
    for (name, seed) in &files {
        let target = if name == ".metadata" { "dcp_table" } else { "dcp_chunks" };
        drive(target, std::slice::from_ref(seed));
    }
}
