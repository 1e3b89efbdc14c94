//! Reads checkpoints that DeepSpeed's engine wrote. The results must be identical to those of
//! `zero_to_fp32.py`, byte for byte.

use tensorferry_deepspeed::DeepSpeed;
use tensorferry_sdk::memory::MemoryView;
use tensorferry_sdk::{MemoryContext, MemorySource};
use tensorferry_test_kit::fixtures::{all_facts, all_facts_of, cases, expected, files_of};

#[test]
fn every_case_is_exact() {
    let cases = cases("deepspeed", "");
    let mut tensors = 0;
    for case in &cases {
        let expected = expected(case);
        let source = MemorySource::folder(files_of(case, &expected, "ckpt/"));
        let context = MemoryContext::default();
        let view = MemoryView::read(&DeepSpeed, &[], &source, &context).unwrap();
        let wanted = expected["tensors"].as_object().unwrap();
        let catalog = view.catalog();
        assert_eq!(all_facts(&view).unwrap(), all_facts_of(&expected), "{}", case.display());
        tensors += wanted.len();
        let tied = |name: &str| catalog.tensors().iter().position(|tensor| tensor.name == name).unwrap();
        let ties = catalog.ties();
        for (alias, source) in expected["shared_params"].as_object().unwrap() {
            assert_eq!(ties[tied(alias)], ties[tied(source.as_str().unwrap())], "{alias}");
        }
    }
    assert_eq!((cases.len(), tensors), (4, 62));
}
