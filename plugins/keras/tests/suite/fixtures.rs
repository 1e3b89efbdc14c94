//! Reads files that Keras and h5py wrote, and files that Keras, h5py or ferry reject.

use crate::common::{archive, source};
use serde_json::Value;
use std::collections::BTreeMap;
use tensorferry_keras::Keras;
use tensorferry_sdk::memory::{self, MemoryView};
use tensorferry_sdk::{Entry, ErrorKind, MemoryContext, MemorySource, Purpose, Result};
use tensorferry_test_kit::fixtures::{all_facts, all_facts_of, cases, expected, name_of, refused_case};
use tensorferry_test_kit::tensors::with_view;

/// Returns the dtype, shape and digest of each tensor, by name, and the losses.
fn read(source: &MemorySource) -> Result<(BTreeMap<String, Value>, Vec<String>)> {
    with_view(&Keras, source, &[], |view| {
        let facts = all_facts(view)?;
        Ok((facts, view.catalog().losses().iter().map(ToString::to_string).collect()))
    })?
}

#[test]
fn every_case_is_read_or_refused() {
    let (mut ok, mut refused) = (0, Vec::new());
    for folder in cases("keras", "") {
        let expected = expected(&folder);
        let case = name_of(&folder);
        let read = read(&source(&folder, expected["entry"].as_str().unwrap()));
        if expected["expect"] == "ok" {
            let (read, losses) = read.unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!(read, all_facts_of(&expected), "{case}");
            assert_eq!(losses, Vec::<String>::new(), "{case}");
            ok += 1;
            continue;
        }
        refused.push(format!("{case}: {}", refused_case(&folder, read)));
    }
    println!("{}", refused.join("\n"));
    assert_eq!((ok, refused.len()), (16, 15), "{refused:#?}");
}

/// Reads the given files of a sharded fixture for the given purpose. Returns the number of tensors,
/// and the notes.
fn read_for(
    purpose: Purpose,
    options: &[(&str, &str)],
    entry: Entry,
    files: &[&str],
) -> Result<(usize, Vec<String>)> {
    let folder = cases("keras", "weights_sharded").remove(0);
    let files =
        files.iter().map(|&name| (name.to_owned(), std::fs::read(folder.join(name)).unwrap())).collect();
    let mut context = MemoryContext::default();
    context.purpose = purpose;
    let source = MemorySource::new(entry, files);
    let view = MemoryView::read(&Keras, &memory::pairs(options), &source, &context)?;
    Ok((view.catalog().tensors().len(), context.notes()))
}

/// The error's hint names the map and the option `shard=alone`.
#[test]
fn a_shard_is_not_taken_for_its_set() {
    let (map, shard) = ("model.weights.json", "model_00001.weights.h5");
    let all = [map, "model_00000.weights.h5", shard];
    let named = || Entry::File(shard.to_owned());
    for purpose in [Purpose::FLAT, Purpose::COMPARE, Purpose::COPY] {
        let error = read_for(purpose, &[], named(), &all).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        let hint = error.details().find(|(name, _)| *name == "hint").unwrap().1;
        assert!(hint.contains(map) && hint.contains("shard=alone"), "{hint}");
    }
    let (whole, _) = read_for(Purpose::FLAT, &[], Entry::Folder, &all).unwrap();
    let (count, notes) = read_for(Purpose::FLAT, &[("shard", "alone")], named(), &all).unwrap();
    assert!(count < whole && notes.is_empty(), "{count} of {whole}, {notes:?}");
    let (shown, notes) = read_for(Purpose::SHOW, &[], named(), &all).unwrap();
    assert!(shown == count && notes[0].contains(map), "{notes:?}");
    // A shard of transformers is recognized without a map, because its name contains the number of
    // shards.
    let source = MemorySource::file("tf_model-00001-of-00002.h5", []);
    let mut context = MemoryContext::default();
    context.purpose = Purpose::FLAT;
    let error = MemoryView::read(&Keras, &[], &source, &context).err().unwrap();
    let hint = error.details().find(|(name, _)| *name == "hint").unwrap().1;
    assert!(hint.contains("shard=alone"), "{hint}");
    // Without a map, the file may contain the weights of a training epoch.
    assert_eq!(read_for(Purpose::FLAT, &[], named(), &[shard]).unwrap(), (count, Vec::new()));
}

/// `TextVectorization` saves its vocabulary as such a file.
#[test]
fn files_of_an_archive_that_are_not_read_are_losses() {
    let weights = cases("keras", "h5_minimal_writer").remove(0).join("min.weights.h5");
    let vocabulary = "assets/layers/text/vocabulary.txt";
    let archive = archive(&[
        ("config.json", b"{}"),
        ("model.weights.h5", &std::fs::read(weights).unwrap()),
        ("assets/", b""),
        (vocabulary, b"the\nof\n"),
    ]);
    let (_, losses) = read(&MemorySource::file("model.keras", archive)).unwrap();
    assert_eq!(losses.len(), 1, "{losses:?}");
    assert!(losses[0].contains(vocabulary), "{losses:?}");
}
