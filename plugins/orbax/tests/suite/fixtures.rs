//! Checkpoints that Orbax and tensorstore wrote, and folders that they or this format refuse.

use crate::common::facts::{cases, expected, facts, facts_of};
use crate::common::{files, folder, with_view};
use serde_json::Value;
use std::collections::BTreeMap;
use tensorferry_sdk::{CatalogView, ErrorKind, MemorySource, Result};

/// The facts of every tensor that is read, by its name.
fn read(source: &MemorySource) -> Result<BTreeMap<String, Value>> {
    with_view(source, |view| {
        // Chunks are decoded when they are read.
        for id in view.tensor_ids() {
            let mut bytes = vec![0; usize::try_from(CatalogView::tensor(view, id).bytes).unwrap()];
            CatalogView::read(view, id, 0, &mut bytes)?;
        }
        let names = view.catalog().tensors().iter().map(|tensor| tensor.name.clone());
        Ok(names.map(|name| (name.clone(), facts(view, &name))).collect())
    })?
}

#[test]
fn every_case_is_read_or_refused() {
    let (mut ok, mut refused) = (0, 0);
    for case in cases("orbax", "") {
        let expected = expected(&case);
        let source = folder(files(&case.join(expected["entry"].as_str().unwrap())));
        let read = read(&source);
        let case = case.display();
        if expected["expect"] == "ok" {
            let tensors = expected["tensors"].as_object().unwrap();
            let facts: BTreeMap<String, Value> =
                tensors.iter().map(|(name, tensor)| (name.clone(), facts_of(tensor))).collect();
            assert_eq!(read.unwrap_or_else(|error| panic!("{case}: {error}")), facts, "{case}");
            ok += 1;
        } else {
            let error = read.map(|read| format!("{case} was read: {read:?}")).unwrap_err();
            let known = [ErrorKind::Malformed, ErrorKind::Unsupported, ErrorKind::Limit];
            assert!(known.contains(&error.kind()), "{case}: {error}");
            assert!(error.details().any(|(name, _)| name == "file"), "{case}: {error}");
            refused += 1;
        }
    }
    assert_eq!((ok, refused), (12, 17));
}
