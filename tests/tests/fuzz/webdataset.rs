//! Tests that the WebDataset reader handles arbitrary bytes without a panic.

use crate::drive;
use tensorferry_tests::fixtures;

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_tars() {
    let names = [
        "basic/train.tar",
        "gzip/train.tar.gz",
        "long_names_pax/train.tar",
        "odd_names/train.tar",
        "other_entries/train.tar",
    ];
    let seeds: Vec<_> = names
        .iter()
        .map(|name| std::fs::read(fixtures::folder().join("webdataset").join(name)).unwrap())
        .collect();
    drive("webdataset", &seeds);
}
