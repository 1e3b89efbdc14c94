//! Reads files that numpy wrote, and files that numpy or this format rejects.

use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tensorferry_numpy::Numpy;
use tensorferry_sdk::{ErrorKind, MemorySource, Result};
use tensorferry_test_kit::fixtures::{all_facts, all_facts_of, cases, expected, refused_case};
use tensorferry_test_kit::tensors::with_view;

fn source(folder: &Path, expected: &Value) -> MemorySource {
    let name = expected["input"].as_str().unwrap();
    MemorySource::file(name, fs::read(folder.join(name)).unwrap())
}

/// Returns the dtype, shape and digest of each tensor, by name, and the number of losses.
fn read(source: &MemorySource) -> Result<(BTreeMap<String, Value>, usize)> {
    with_view(&Numpy, source, &[], |view| {
        // This call reads the data, and therefore also checks the archive's checksums.
        Ok((all_facts(view)?, view.catalog().losses().len()))
    })?
}

#[test]
fn every_case_is_read_or_refused() {
    let (mut ok, mut lossy, mut refused) = (0, 0, 0);
    for folder in cases("numpy", "") {
        let expected = expected(&folder);
        let case = folder.display();
        let facts = all_facts_of(&expected);
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
                refused_case(&folder, read);
                refused += 1;
            }
            (other, _) => panic!("expect {other}"),
        }
    }
    assert_eq!((ok, lossy, refused), (18, 5, 24));
}
