//! Checks the scores of this format for various inputs.

use tensorferry_sdk::{Format, MemoryContext, MemorySource, Score};
use tensorferry_test_kit::pickle::{int, pickle};
use tensorferry_test_kit::tar::tar;
use tensorferry_test_kit::zip::Zip;
use tensorferry_torch::Torch;

fn score(name: &str, bytes: &[u8]) -> Score {
    let source = MemorySource::file(name, bytes);
    Torch.probe(&source, &MemoryContext::default()).unwrap().unwrap()
}

fn archive(names: &[&str]) -> Vec<u8> {
    let mut zip = Zip::default();
    for name in names {
        zip.add(name, b"");
    }
    zip.bytes()
}

#[test]
fn archives_are_told_apart_by_their_records() {
    assert_eq!(score("model", &Zip::torch(&pickle(&int(1)), &[]).bytes()), Score::CERTAIN);
    assert_eq!(score("model.pt", &archive(&["data.pkl", "constants.pkl"])), Score::CERTAIN);
    assert_eq!(score("model.pt2", &archive(&["archive_format"])), Score::CERTAIN);
    assert_eq!(score("arrays.npz", &archive(&["a.npy", "b.npy"])), Score::NO);
    assert_eq!(score("model.pt", b"{}"), Score::NO);
    assert_eq!(score("model.pt", b""), Score::NO);
}

#[test]
fn a_broken_archive_of_our_name_is_read_for_its_error() {
    let good = Zip::torch(&pickle(&int(1)), &[]).bytes();
    let cut = &good[..good.len() - 1];
    assert_eq!(score("model.pt", cut), Score::MAYBE);
    assert_eq!(score("model.zip", cut), Score::NO);
}

#[test]
fn other_containers_of_torch_are_known_at_sight() {
    let magic = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e";
    assert_eq!(score("x", &[b"\x80\x02", &magic[..]].concat()), Score::CERTAIN);
    assert_eq!(score("x", &[b"\x80\x04\x95\x0d\0\0\0\0\0\0\0", &magic[..]].concat()), Score::CERTAIN);
    assert_eq!(score("x", b"\x80\x02K\x01."), Score::NO);
    assert_eq!(score("x", b"PYTORCH1"), Score::CERTAIN);
    let archive = tar(&[("storages", Vec::new())]);
    assert_eq!(score("x", &archive), Score::CERTAIN);
    // Python's `tarfile` writes an extra member before a member, with additional attributes of that
    // member.
    let extended = tar(&[("x", b"28 mtime=1484000000.25\n".to_vec()), ("storages", Vec::new())]);
    assert_eq!(score("x", &extended), Score::CERTAIN);
    assert_eq!(score("x", &tar(&[("other", Vec::new())])), Score::NO);
}

#[test]
fn a_folder_is_not_one_file() {
    let source = MemorySource::folder([("", ""); 0]);
    assert_eq!(Torch.probe(&source, &MemoryContext::default()).unwrap(), Some(Score::NO));
}
