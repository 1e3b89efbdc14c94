#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::testing::{TableBytes, file, source};
use tensorferry_sdk::{ErrorKind, MemorySource};
use tensorferry_test_kit::Files;

fn found(entry: Entry, names: &[&str]) -> Result<Checkpoint> {
    with_state(entry, names, "")
}

/// Finds a checkpoint among files that are all tables, with `state` as the content of the state
/// file.
fn with_state(entry: Entry, names: &[&str], state: &str) -> Result<Checkpoint> {
    chosen(entry, names, state).map(|(checkpoint, _)| checkpoint)
}

fn chosen(entry: Entry, names: &[&str], state: &str) -> Result<(Checkpoint, Option<Loss>)> {
    let table = TableBytes::default().finish();
    let mut files: Files = names.iter().map(|&name| (name.to_owned(), table.clone())).collect();
    if !state.is_empty() {
        files.insert(STATE_FILE.to_owned(), state.as_bytes().to_vec());
    }
    find(&MemorySource::new(entry, files), &Limits::default())
}

fn v2(prefix: &str) -> Checkpoint {
    Checkpoint::V2(prefix.to_owned())
}

fn v1(names: &[&str]) -> Checkpoint {
    Checkpoint::V1(names.iter().map(|&name| name.to_owned()).collect())
}

const BUNDLE: [&str; 4] =
    ["m.ckpt-4.data-00000-of-00002", "m.ckpt-4.data-00001-of-00002", "m.ckpt-4.index", "m.ckpt-4.meta"];
const SHARDS: [&str; 2] = ["m.ckpt-4-00000-of-00002", "m.ckpt-4-00001-of-00002"];

#[test]
fn every_member_of_a_bundle_stands_for_it() {
    for name in BUNDLE {
        assert_eq!(found(file(name), &BUNDLE).unwrap(), v2("m.ckpt-4"));
    }
    assert_eq!(found(Entry::Prefix("m.ckpt-4".into()), &BUNDLE).unwrap(), v2("m.ckpt-4"));
    assert_eq!(found(Entry::Folder, &BUNDLE).unwrap(), v2("m.ckpt-4"));
}

#[test]
fn every_member_of_a_v1_checkpoint_stands_for_it() {
    let one = ["m.ckpt-4", "m.ckpt-4.meta"];
    for entry in [file("m.ckpt-4"), file("m.ckpt-4.meta"), Entry::Folder] {
        assert_eq!(found(entry, &one).unwrap(), v1(&["m.ckpt-4"]));
    }
    let prefix = |prefix: &str| Entry::Prefix(prefix.into());
    for entry in [file(SHARDS[1]), prefix("m.ckpt-4"), prefix("m.ckpt-4-?????-of-00002"), Entry::Folder] {
        assert_eq!(found(entry, &SHARDS).unwrap(), v1(&SHARDS));
    }
    // These file names were selected by a glob that does not match the state file. TensorFlow's own
    // example uses these names.
    let named = ["model-00000-of-00002", "model-00001-of-00002"];
    assert_eq!(found(Entry::Folder, &named).unwrap(), v1(&named));
}

#[test]
fn the_state_file_names_the_latest() {
    let two = ["a/ckpt-1.index", "ckpt-1.index", "ckpt-2.index"];
    let state = |path: &str| with_state(Entry::Folder, &two, &format!("model_checkpoint_path: \"{path}\"\n"));
    assert_eq!(state("ckpt-1").unwrap(), v2("ckpt-1"));
    assert_eq!(state("./ckpt-2").unwrap(), v2("ckpt-2"));
    assert_eq!(state("a/ckpt-1").unwrap(), v2("a/ckpt-1"));
    assert_eq!(state("/home/some/body/ckpt-2").unwrap(), v2("ckpt-2"));
    assert_eq!(state("../ckpt-2").unwrap(), v2("ckpt-2"));
    // The checkpoint that the state file names is missing, and two other checkpoints exist.
    assert_eq!(state("ckpt-3").unwrap_err().kind(), ErrorKind::Usage);
    let sharded = "model_checkpoint_path: \"m.ckpt-4-?????-of-00002\"";
    assert_eq!(with_state(file(STATE_FILE), &SHARDS, sharded).unwrap(), v1(&SHARDS));
    // The checkpoint that the state file names is missing, and one other checkpoint exists.
    let (left, lost) = chosen(Entry::Folder, &BUNDLE, "model_checkpoint_path: \"m.ckpt-3\"").unwrap();
    assert_eq!(left, v2("m.ckpt-4"));
    assert!(lost.is_some_and(|loss| loss.kind == LossKind::State && loss.what == "m.ckpt-3"));
}

#[test]
fn the_user_chooses_among_several() {
    let error = found(Entry::Folder, &["b.index", "a.index", "._a.index"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().ends_with(r#"several checkpoints: "a", "b""#), "{error}");
}

#[test]
fn a_prefix_that_is_none_is_answered_with_those_that_are() {
    let names = [
        "model.ckpt-1000.index",
        "model.ckpt-1000.data-00000-of-00001",
        "model.ckpt-2000.index",
        "notes.txt",
    ];
    for (prefix, kind) in [
        ("model.ckpt", ErrorKind::Usage),
        ("model.ckpt-1000.ind", ErrorKind::Usage),
        ("model.ckpt-1000.dat", ErrorKind::Usage),
        // A different format may recognize this file.
        ("note", ErrorKind::Malformed),
    ] {
        let error = found(Entry::Prefix(prefix.into()), &names).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let reported = error.to_string();
        assert!(
            reported.contains(r#"contains "model.ckpt-1000", "model.ckpt-2000""#)
                && reported.contains(prefix),
            "{reported}"
        );
    }
}

#[test]
fn what_is_not_there_is_said() {
    for (entry, names) in [
        (Entry::Folder, &["weights.bin"][..]),
        (Entry::Prefix("m".into()), &["m.bin"]),
        (file("m.bin"), &[]),
        (file(BUNDLE[0]), &BUNDLE[..2]),
        (file(SHARDS[0]), &SHARDS[..1]),
    ] {
        let files: Vec<_> = names.iter().map(|&name| (name, [0; 64])).collect();
        let error = find(&source(entry, &files), &Limits::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    }
    let gone = with_state(Entry::Folder, &[], "model_checkpoint_path: \"x\"").unwrap_err();
    assert!(gone.to_string().contains("\"x\""));
    assert!(with_state(Entry::Folder, &BUNDLE, "all_model_checkpoint_paths: \"x\"").is_err());
}
