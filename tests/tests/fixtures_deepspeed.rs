//! Checkpoints that DeepSpeed's engine wrote: what `ferry` finds in them, and what it refuses.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use tempfile::tempdir;
use tensorferry_tests::Ferry;
use tensorferry_tests::fixtures::{Case, cases, inspected};

fn all() -> Vec<Case> {
    let cases = cases("deepspeed", "zero");
    assert_eq!(cases.len(), 4);
    cases
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to);
        } else {
            std::fs::copy(&path, &to).unwrap();
        }
    }
}

#[test]
fn every_tensor_is_found_from_wherever_one_points() {
    let ferry = Ferry::new();
    for case in all() {
        let checkpoint = case.folder.join("ckpt");
        for input in [checkpoint.clone(), checkpoint.join("latest"), checkpoint.join("global_step2")] {
            let document = ferry.inspect(&input);
            assert_eq!(document["format"], "deepspeed", "{}", input.display());
            assert_eq!(inspected(&document), case.tensors(|_, _| true), "{}", input.display());
        }
    }
}

#[test]
fn content_survives_a_conversion() {
    let ferry = Ferry::new();
    for case in all() {
        let folder = tempdir().unwrap();
        for output in ["out.safetensors", "out.pt"] {
            let output = folder.path().join(output);
            ferry.convert(&case.folder.join("ckpt"), &output, &["--verify"]);
            assert_eq!(inspected(&ferry.inspect(&output)), case.tensors(|_, _| true), "{}", case.name);
        }
    }
}

#[test]
fn a_missing_rank_is_refused_by_name() {
    let ferry = Ferry::new();
    for case in all() {
        let states = case.folder.join("ckpt/global_step2");
        let mut removed = 0;
        for name in tensorferry_tests::ferry::names_in(&states) {
            let folder = tempdir().unwrap();
            copy(&case.folder.join("ckpt"), folder.path());
            std::fs::remove_file(folder.path().join("global_step2").join(&name)).unwrap();
            ferry.refuses(folder.path(), &name);
            removed += 1;
        }
        assert!(removed >= 3, "{}", case.name);
    }
}

#[test]
fn tensor_parallelism_is_refused_by_name() {
    let ferry = Ferry::new();
    for case in all() {
        let folder = tempdir().unwrap();
        copy(&case.folder.join("ckpt"), folder.path());
        let states = folder.path().join("global_step2");
        let names = tensorferry_tests::ferry::names_in(&states);
        let name = names.first().unwrap();
        let part = name.replace("mp_rank_00", "mp_rank_01");
        std::fs::copy(states.join(name), states.join(&part)).unwrap();
        ferry.refuses(folder.path(), &part);
    }
}

#[test]
fn a_damaged_rank_is_refused_by_name() {
    let ferry = Ferry::new();
    let case = all().pop().unwrap();
    for name in tensorferry_tests::ferry::names_in(&case.folder.join("ckpt/global_step2")) {
        let folder = tempdir().unwrap();
        copy(&case.folder.join("ckpt"), folder.path());
        let path = folder.path().join("global_step2").join(&name);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        ferry.refuses(folder.path(), &name);
    }
}
