//! Reads checkpoints that megatron-core saved. The results must be byte-identical to the model that
//! megatron-core saves after joining the ranks.

use crate::common::options;
use serde_json::Value;
use std::path::Path;
use tensorferry_megatron::Megatron;
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{ErrorKind, MemoryContext, MemorySource};
use tensorferry_test_kit::Files;
use tensorferry_test_kit::fixtures::{
    all_facts, all_facts_of, cases, expected, facts, facts_of, files_of, name_of,
};

pub(crate) fn files(case: &Path, expected: &Value) -> Files {
    files_of(case, expected, "ckpt/")
}

#[test]
fn every_case_is_exact() {
    let (mut tensors, mut read) = (0, 0);
    for case in cases("megatron", "").into_iter().filter(|case| !case.to_str().unwrap().contains("/bad_")) {
        let expected = expected(&case);
        let (source, context) = (MemorySource::folder(files(&case, &expected)), MemoryContext::default());
        let view = MemoryView::read(&Megatron, &[], &source, &context).unwrap();
        assert_eq!(all_facts(&view).unwrap(), all_facts_of(&expected), "{}", case.display());
        tensors += view.catalog().tensors().len();
        read += 1;
    }
    assert_eq!((read, tensors), (4, 123));
}

#[test]
fn old_rows_get_the_order_of_today() {
    let case = cases("megatron", "legacy_names_v1").pop().unwrap();
    let expected = expected(&case);
    let (source, context) = (MemorySource::folder(files(&case, &expected)), MemoryContext::default());
    let view = MemoryView::read(&Megatron, &options(&[("qkv", "today")]), &source, &context).unwrap();
    let mut reordered = 0;
    for (name, tensor) in expected["tensors"].as_object().unwrap() {
        let wanted = if tensor["as_version_3"].is_object() { &tensor["as_version_3"] } else { tensor };
        reordered += usize::from(wanted["sha256"] != tensor["sha256"]);
        assert_eq!(facts(&view, name), facts_of(wanted), "{name}");
    }
    assert!(reordered >= 2, "{reordered}");
    let view = MemoryView::read(&Megatron, &[], &source, &context).unwrap();
    assert!(
        context.notes().iter().any(|note| note.contains("-i qkv=today")),
        "{:?}",
        view.catalog().tensors().len()
    );
}

#[test]
fn bad_ones_are_refused_by_name() {
    let mut refused = 0;
    for case in cases("megatron", "bad_") {
        let expected = expected(&case);
        let (source, context) = (MemorySource::folder(files(&case, &expected)), MemoryContext::default());
        let error = MemoryView::read(&Megatron, &[], &source, &context).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        let named = match name_of(&case) {
            "bad_missing_rank" => "mp_rank_01",
            "bad_shape" => "weight",
            _ => "latest_checkpointed_iteration.txt",
        };
        assert!(error.to_string().contains(named), "{error}");
        refused += 1;
    }
    assert_eq!(refused, 3);
}
