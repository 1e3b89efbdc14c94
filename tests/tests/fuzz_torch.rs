//! The torch reader comes back from whatever bytes it is given: archives, and the pickles in them.
#![expect(clippy::unwrap_used, reason = "tests")]

use ferry_torch::Torch;
use std::io::{Cursor, Read as _};
use tensorferry_tests::fixtures::cases;
use tensorferry_tests::{fuzz, zip};

/// Archives that torch wrote, in parts: each member's name and bytes.
type Members = Vec<(String, Vec<u8>)>;

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

fn members(archive: &[u8]) -> Members {
    let mut archive = ::zip::ZipArchive::new(Cursor::new(archive)).unwrap();
    let indexes = 0..archive.len();
    let member = indexes.map(|index| {
        let mut file = archive.by_index(index).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        (file.name().unwrap().into_owned(), bytes)
    });
    member.collect()
}

#[test]
fn survives_mutated_archives() {
    let mut seeds = Vec::new();
    for (archive, members) in archives() {
        // With CRCs, damage to the pickle ends at the CRC; without, it reaches the evaluator.
        let members: Vec<_> = members.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
        let bare = zip::stored(&members);
        assert_eq!(fuzz::read(&Torch, "model.pt", &archive), fuzz::read(&Torch, "model.pt", &bare));
        seeds.extend([archive, bare]);
    }
    fuzz::drive("torch_zip", &seeds, |bytes| fuzz::read(&Torch, "model.pt", bytes));
}

#[test]
fn survives_mutated_pickles() {
    let pickles: Vec<_> = archives()
        .into_iter()
        .flat_map(|(_, members)| members.into_iter().filter(|(name, _)| name.ends_with("/data.pkl")))
        .map(|(_, bytes)| bytes)
        .collect();
    fuzz::drive("torch_pickle", &pickles, |bytes| fuzz::read_pickle(&Torch, bytes));
}
