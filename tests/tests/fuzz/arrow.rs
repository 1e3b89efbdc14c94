//! Tests that the Arrow IPC reader handles arbitrary bytes without a panic.

use crate::drive;
use tensorferry_tests::fixtures;

fn seeds(names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| std::fs::read(fixtures::folder().join("arrow").join(name)).unwrap()).collect()
}

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_files() {
    drive(
        "arrow_file",
        &seeds(&[
            "file_flat_types/data.arrow",
            "file_nested/data.arrow",
            "file_rare_types/data.arrow",
            "file_dictionary/data.arrow",
            "feather_v2/data.feather",
        ]),
    );
}

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_streams() {
    drive(
        "arrow_stream",
        &seeds(&[
            "stream_flat_types/data.arrows",
            "stream_dictionary_delta/data.arrows",
            "stream_legacy_framing/data.arrows",
        ]),
    );
}
