//! Orbax's reader comes back from whatever is in an OCDBT store's manifest, and from whatever describes an array.

use crate::drive_any;
use std::path::PathBuf;
use tensorferry_tests::fixtures::cases;

/// The files of this name in all cases.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let mut open: Vec<PathBuf> = cases("orbax", "").into_iter().map(|case| case.folder).collect();
    let mut found = Vec::new();
    while let Some(at) = open.pop() {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.file_name().unwrap() == name {
                found.push(std::fs::read(path).unwrap());
            }
        }
    }
    found
}

#[test]
#[ignore = "fuzzes for five seconds a target"]
fn survives_mutated_manifests_and_arrays() {
    let (manifests, arrays) = (seeds("manifest.ocdbt"), seeds(".zarray"));
    assert!(manifests.len() >= 8 && arrays.len() >= 20, "{} {}", manifests.len(), arrays.len());
    drive_any("orbax_manifest", &manifests);
    drive_any("orbax_zarr", &arrays);
}
