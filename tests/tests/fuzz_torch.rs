//! The readers of PyTorch's files come back from whatever bytes they are given: each container, the
//! pickles in it, and the files of a checkpoint beside each other.
#![expect(clippy::unwrap_used, reason = "tests")]

use ferry_deepspeed::DeepSpeed;
use ferry_torch::Torch;
use ferry_torch_dcp::TorchDcp;
use std::io::{Cursor, Read as _};
use tensorferry_sdk::Format;
use tensorferry_tests::fixtures::cases;
use tensorferry_tests::workspace::root;
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

/// An archive without CRCs. With them, damage to the pickle ends at the CRC; without, it reaches the
/// evaluator.
fn bare(members: &Members) -> Vec<u8> {
    let members: Vec<_> = members.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    zip::stored(&members)
}

#[test]
fn survives_mutated_archives() {
    let mut seeds = Vec::new();
    for (archive, members) in archives() {
        let bare = bare(&members);
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

/// A file that the plugin's own tests have.
fn file(name: &str) -> Vec<u8> {
    let path = root().join("plugins/torch/tests/files").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn survives_mutated_streams() {
    let cases = cases("torch", "legacy_");
    assert_eq!(cases.len(), 8);
    let seeds: Vec<_> = cases.iter().map(|case| std::fs::read(case.input()).unwrap()).collect();
    all_are_read(&Torch, &seeds);
    fuzz::drive("torch_legacy", &seeds, |bytes| fuzz::read(&Torch, "model.pt", bytes));
}

#[test]
fn survives_mutated_tars() {
    let seeds = [file("tar.pt")];
    all_are_read(&Torch, &seeds);
    fuzz::drive("torch_tar", &seeds, |bytes| fuzz::read(&Torch, "model.pt", bytes));
}

#[test]
fn survives_mutated_programs() {
    let seeds: Vec<_> = ["script.pt", "trace.pt", "export.pt2"].map(file).into();
    let seeds: Vec<_> = seeds.iter().flat_map(|seed| [seed.clone(), bare(&members(seed))]).collect();
    all_are_read(&Torch, &seeds);
    fuzz::drive("torch_script", &seeds, |bytes| fuzz::read(&Torch, "model.pt", bytes));
}

fn all_are_read(format: &dyn Format, seeds: &[Vec<u8>]) {
    for (index, seed) in seeds.iter().enumerate() {
        assert!(fuzz::read(format, "model.pt", seed), "seed {index} is not read as it stands");
    }
}

#[test]
fn survives_mutated_distributed_checkpoints() {
    let files = fuzz::files_of("torch/dcp_single/dcp");
    assert_eq!(files.len(), 2);
    for (name, seed) in &files {
        assert!(fuzz::read_among(&TorchDcp, &files, name, seed), "{name}");
        let target = if name == ".metadata" { "dcp_table" } else { "dcp_chunks" };
        fuzz::drive(target, std::slice::from_ref(seed), |bytes| {
            fuzz::read_among(&TorchDcp, &files, name, bytes)
        });
    }
}

#[test]
fn survives_mutated_rank_files() {
    for case in ["zero2_bf16", "zero3_fp32"] {
        let mut files = fuzz::files_of(&format!("deepspeed/{case}/ckpt"));
        for (_, bytes) in files.iter_mut().filter(|(name, _)| name.ends_with(".pt")) {
            *bytes = bare(&members(bytes));
        }
        // Which file is mutated lies in the first byte.
        let tag = |index: usize| u8::try_from(index).unwrap();
        let seeds: Vec<_> = files
            .iter()
            .enumerate()
            .map(|(index, (_, bytes))| [&[tag(index)], &bytes[..]].concat())
            .collect();
        let read = |bytes: &[u8]| match bytes.split_first() {
            Some((&index, bytes)) => {
                let (name, _) = &files[usize::from(index) % files.len()];
                fuzz::read_among(&DeepSpeed, &files, name, bytes)
            }
            None => false,
        };
        assert!(seeds.iter().all(|seed| read(seed)), "{case}");
        fuzz::drive(&format!("deepspeed_{case}"), &seeds, read);
    }
}
