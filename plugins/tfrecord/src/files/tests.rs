//! Checks that all ways of specifying an input find the same files.
#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use tensorferry_sdk::{ErrorKind, MemorySource};

fn found(entry: Entry, names: &[&str], glob: Option<&str>) -> Result<Vec<String>> {
    let mut record = Vec::new();
    crate::frame::append(&mut record, b"abc");
    let bytes = |name: &str| if name.contains("text") { b"some text".to_vec() } else { record.clone() };
    let files: BTreeMap<_, _> = names.iter().map(|name| ((*name).to_owned(), bytes(name))).collect();
    let source: Arc<dyn Source> = Arc::new(MemorySource::new(entry, files));
    find(&source, glob, &Limits::default())
}

fn file(name: &str) -> Entry {
    Entry::File(name.to_owned())
}

const SET: [&str; 4] =
    ["d.tfrecord-00000-of-00002", "d.tfrecord-00001-of-00002", "d.tfrecord-00001-of-00002.idx", "text.json"];

#[test]
fn the_prefix_and_the_folder_are_the_set() {
    for entry in [Entry::Prefix("d.tfrecord".into()), Entry::Prefix("d".into()), Entry::Folder] {
        assert_eq!(found(entry.clone(), &SET, None).unwrap(), SET[..2], "{entry:?}");
    }
}

#[test]
fn capitals_are_the_same_name() {
    assert!(has_record_name("D.TFRECORD") && has_record_name("D.TfRec.GZ") && !has_record_name("D.TF"));
}

#[test]
fn a_file_is_itself() {
    assert_eq!(found(file(SET[1]), &SET, None).unwrap(), SET[1..2]);
    assert_eq!(found(file(SET[1]), &SET[1..], None).unwrap(), SET[1..2]);
}

#[test]
fn a_set_that_is_not_whole_is_an_error() {
    for entry in [Entry::Prefix("d".into()), Entry::Folder] {
        let error = found(entry, &SET[1..], None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert!(error.to_string().contains("[0]"), "{error}");
    }
    assert_eq!(found(Entry::Folder, &SET[1..], Some("d*-of-00002")).unwrap(), SET[1..2]);
}

#[test]
fn files_are_found_by_their_content_where_no_name_tells() {
    let names = ["part-r-00000", "part-r-00001", "text", "_SUCCESS", ".hidden"];
    assert_eq!(found(Entry::Folder, &names, None).unwrap(), names[..2]);
    assert_eq!(found(Entry::Folder, &["text"], None).unwrap_err().kind(), ErrorKind::Malformed);
}

#[test]
fn globs_choose() {
    let names = ["a.tfrecord", "b.tfrecord", "train/c.tfrecord", "train/deep/d.tfrecord"];
    let chosen = |glob| found(Entry::Folder, &names, Some(glob)).unwrap();
    assert_eq!(chosen("*.tfrecord"), names[..2]);
    assert_eq!(chosen("train/*.tfrecord"), names[2..3]);
    assert_eq!(chosen("**/*.tfrecord"), names);
    assert_eq!(found(Entry::Folder, &names, Some("x*")).unwrap_err().kind(), ErrorKind::Usage);
    assert_eq!(found(Entry::Folder, &names, Some("[")).unwrap_err().kind(), ErrorKind::Usage);
}

#[test]
fn what_is_ambiguous_is_listed() {
    let names = ["d-00000-of-00001", "d-00000-of-00002", "d-00001-of-00002", "dd-00000-of-00001"];
    let error = found(Entry::Prefix("d".into()), &names, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert!(error.to_string().contains("d-?????-of-00002"), "{error}");
    assert_eq!(found(Entry::Prefix("dd".into()), &names, None).unwrap(), names[3..]);
    assert_eq!(shard_of("d-00003-of-00002"), None);
}
