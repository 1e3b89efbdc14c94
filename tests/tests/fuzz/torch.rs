//! Tests that the torch reader handles arbitrary bytes in each container, and in the pickles
//! inside, without a panic.

use crate::{drive, drive_any, targets};
use tensorferry_tests::fixtures::cases;
use tensorferry_tests::workspace::root;
use tensorferry_tests::zip::{Members, bare, members};

/// Returns archives written by torch. Each is returned as a whole and as its members.
fn archives() -> Vec<(Vec<u8>, Members)> {
    let cases = cases("torch", "zip_");
    assert_eq!(cases.len(), 22);
    // The case with 500 storages consists mostly of the directory, and is too slow for its benefit.
    // Data that torch skipped has no valid CRC.
    let skipped = ["zip_many_small", "zip_skip_data"];
    let cases = cases.iter().filter(|case| !skipped.contains(&case.name.as_str()));
    let archives: Vec<_> = cases.map(|case| std::fs::read(case.input()).unwrap()).collect();
    archives.into_iter().map(|bytes| (bytes.clone(), members(&bytes))).collect()
}

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_archives() {
    let mut seeds = Vec::new();
    for (archive, members) in archives() {
        let bare = bare(&members);
        let read = targets::named("torch_zip");
        assert_eq!(read(&archive), read(&bare));
        seeds.extend([archive, bare]);
    }
    drive_any("torch_zip", &seeds);
}

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_pickles() {
    let pickles: Vec<_> = archives()
        .into_iter()
        .flat_map(|(_, members)| members.into_iter().filter(|(name, _)| name.ends_with("/data.pkl")))
        .map(|(_, bytes)| bytes)
        .collect();
    drive_any("torch_pickle", &pickles);
}

/// Reads a file of the plugin's own tests.
fn file(name: &str) -> Vec<u8> {
    let path = root().join("plugins/torch/tests/files").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_streams() {
    let cases = cases("torch", "legacy_");
    assert_eq!(cases.len(), 8);
    let seeds: Vec<_> = cases.iter().map(|case| std::fs::read(case.input()).unwrap()).collect();
    drive("torch_legacy", &seeds);
}

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_tars() {
    let seeds = [file("tar.pt")];
    drive("torch_tar", &seeds);
}

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_programs() {
    let seeds: Vec<_> = ["script.pt", "trace.pt", "export.pt2"].map(file).into();
    let seeds: Vec<_> = seeds.iter().flat_map(|seed| [seed.clone(), bare(&members(seed))]).collect();
    drive("torch_zip", &seeds);
}
