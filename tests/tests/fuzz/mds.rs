//! Tests that the MDS reader handles arbitrary bytes in an index and in a shard without a panic.

use crate::drive;
use tensorferry_tests::fixtures;

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_indexes_and_shards() {
    let file = |name: &str| std::fs::read(fixtures::folder().join("mds/all_encodings").join(name)).unwrap();
    drive("mds_index", &[file("index.json")]);
    drive("mds_shard", &[file("shard.00000.mds")]);
}
