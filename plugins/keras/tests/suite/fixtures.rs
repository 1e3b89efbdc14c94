//! Files that Keras and h5py wrote, and files that they or this format refuse.

use crate::common::facts::{cases, expected, facts, facts_of};
use crate::common::{source, with_view};
use serde_json::Value;
use std::collections::BTreeMap;
use tensorferry_sdk::{CatalogView, ErrorKind, MemorySource, Result};

/// The facts of every tensor that is read, by its name, and the losses.
fn read(source: &MemorySource) -> Result<(BTreeMap<String, Value>, Vec<String>)> {
    with_view(source, &[], |view| {
        let names: Vec<String> = view.catalog().tensors().iter().map(|tensor| tensor.name.clone()).collect();
        // Chunks are decoded when they are read.
        for id in view.tensor_ids() {
            let mut bytes = vec![0; usize::try_from(CatalogView::tensor(view, id).bytes).unwrap()];
            CatalogView::read(view, id, 0, &mut bytes)?;
        }
        let facts = names.into_iter().map(|name| (name.clone(), facts(view, &name))).collect();
        Ok((facts, view.catalog().losses().iter().map(ToString::to_string).collect()))
    })?
}

#[test]
fn every_case_is_read_or_refused() {
    let (mut ok, mut refused) = (0, Vec::new());
    for folder in cases("keras", "") {
        let expected = expected(&folder);
        let case = folder.file_name().unwrap().to_str().unwrap();
        let read = read(&source(&folder, expected["entry"].as_str().unwrap()));
        if expected["expect"] == "ok" {
            let (read, losses) = read.unwrap_or_else(|error| panic!("{case}: {error}"));
            let tensors = expected["tensors"].as_object().unwrap().iter();
            let facts: BTreeMap<String, Value> =
                tensors.map(|(name, tensor)| (name.clone(), facts_of(tensor))).collect();
            assert_eq!(read, facts, "{case}");
            assert_eq!(losses, Vec::<String>::new(), "{case}");
            ok += 1;
            continue;
        }
        let error = read.map(|(read, _)| format!("{case} was read: {read:?}")).unwrap_err();
        let known = [ErrorKind::Malformed, ErrorKind::Unsupported, ErrorKind::Limit];
        assert!(known.contains(&error.kind()), "{case}: {error}");
        refused.push(format!("{case}: {error}"));
    }
    println!("{}", refused.join("\n"));
    assert_eq!((ok, refused.len()), (16, 15), "{refused:#?}");
}
