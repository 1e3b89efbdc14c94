//! Files that numpy wrote, and files that it or this format refuses.

use crate::common::facts::{cases, expected, facts, facts_of};
use crate::common::with_view;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tensorferry_sdk::{CatalogView, ErrorKind, MemorySource, Result};

fn source(folder: &Path, expected: &Value) -> MemorySource {
    let name = expected["input"].as_str().unwrap();
    MemorySource::file(name, fs::read(folder.join(name)).unwrap())
}

/// The facts of every tensor that is read, by its name, and how many losses there are.
fn read(source: &MemorySource) -> Result<(BTreeMap<String, Value>, usize)> {
    with_view(source, &[], |view| {
        let names: Vec<String> = view.catalog().tensors().iter().map(|tensor| tensor.name.clone()).collect();
        // Bytes are held against their checksums when they are read.
        for id in view.tensor_ids() {
            let mut bytes = vec![0; usize::try_from(CatalogView::tensor(view, id).bytes).unwrap()];
            CatalogView::read(view, id, 0, &mut bytes)?;
        }
        let facts = names.into_iter().map(|name| (name.clone(), facts(view, &name))).collect();
        Ok((facts, view.catalog().losses().len()))
    })?
}

#[test]
fn every_case_is_read_or_refused() {
    let (mut ok, mut lossy, mut refused) = (0, 0, 0);
    for folder in cases("numpy", "") {
        let expected = expected(&folder);
        let case = folder.display();
        let facts: BTreeMap<String, Value> = expected["tensors"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, tensor)| (name.clone(), facts_of(tensor)))
            .collect();
        match (expected["expect"].as_str().unwrap(), read(&source(&folder, &expected))) {
            ("ok", read) => {
                let (read, losses) = read.unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!(read, facts, "{case}");
                assert_eq!(losses > 0, case.to_string().ends_with("npz_other_members"), "{case}");
                ok += 1;
            }
            ("refuse_or_loss", Err(error)) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{case}: {error}");
                lossy += 1;
            }
            ("refuse_or_loss", Ok((read, losses))) => {
                for (name, facts) in facts {
                    assert_eq!(read.get(&name), Some(&facts), "{case}: {name}");
                }
                assert!(losses > 0, "{case}");
                lossy += 1;
            }
            ("error", read) => {
                let error = read.map(|(read, _)| format!("{case} was read: {read:?}")).unwrap_err();
                let known = [ErrorKind::Malformed, ErrorKind::Unsupported, ErrorKind::Limit];
                assert!(known.contains(&error.kind()), "{case}: {error}");
                assert!(error.details().any(|(name, _)| name == "file"), "{case}: {error}");
                refused += 1;
            }
            (other, _) => panic!("expect {other}"),
        }
    }
    assert_eq!((ok, lossy, refused), (18, 5, 24));
}
