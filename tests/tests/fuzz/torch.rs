//! The torch reader comes back from whatever bytes it is given: each container, and the pickles in it.

use crate::{drive, drive_any, targets};
use tensorferry_tests::fixtures::cases;
use tensorferry_tests::workspace::root;
use tensorferry_tests::zip::{Members, bare, members};

/// Archives that torch wrote, each whole and in parts.
fn archives() -> Vec<(Vec<u8>, Members)> {
    let cases = cases("torch", "zip_");
    assert_eq!(cases.len(), 22);
    // The case of 500 storages is mostly directory, and slow for what it finds; the data that torch
    // skipped has no CRC that another zip reader would take.
    let skipped = ["zip_many_small", "zip_skip_data"];
    let cases = cases.iter().filter(|case| !skipped.contains(&case.name.as_str()));
    let archives: Vec<_> = cases.map(|case| std::fs::read(case.input()).unwrap()).collect();
    archives.into_iter().map(|bytes| (bytes.clone(), members(&bytes))).collect()
}

#[test]
#[ignore = "fuzzes for two seconds a target"]
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
#[ignore = "fuzzes for two seconds a target"]
fn survives_mutated_pickles() {
    let pickles: Vec<_> = archives()
        .into_iter()
        .flat_map(|(_, members)| members.into_iter().filter(|(name, _)| name.ends_with("/data.pkl")))
        .map(|(_, bytes)| bytes)
        .collect();
    drive_any("torch_pickle", &pickles);
}

/// A file that the plugin's own tests have.
fn file(name: &str) -> Vec<u8> {
    let path = root().join("plugins/torch/tests/files").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
#[ignore = "fuzzes for two seconds a target"]
fn survives_mutated_streams() {
    let cases = cases("torch", "legacy_");
    assert_eq!(cases.len(), 8);
    let seeds: Vec<_> = cases.iter().map(|case| std::fs::read(case.input()).unwrap()).collect();
    drive("torch_legacy", &seeds);
}

#[test]
#[ignore = "fuzzes for two seconds a target"]
fn survives_mutated_tars() {
    let seeds = [file("tar.pt")];
    drive("torch_tar", &seeds);
}

#[test]
#[ignore = "fuzzes for two seconds a target"]
fn survives_mutated_programs() {
    let seeds: Vec<_> = ["script.pt", "trace.pt", "export.pt2"].map(file).into();
    let seeds: Vec<_> = seeds.iter().flat_map(|seed| [seed.clone(), bare(&members(seed))]).collect();
    drive("torch_zip", &seeds);
}
