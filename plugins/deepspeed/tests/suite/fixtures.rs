//! Checkpoints that DeepSpeed's engine wrote: what its own `zero_to_fp32.py` gives, to the byte.

use crate::common::Files;
use crate::common::facts::{cases, expected, facts, facts_of};
use tensorferry_deepspeed::DeepSpeed;
use tensorferry_sdk::MemoryContext;
use tensorferry_sdk::memory::MemoryView;

#[test]
fn every_case_is_exact() {
    let cases = cases("deepspeed", "");
    let mut tensors = 0;
    for case in &cases {
        let expected = expected(case);
        let files = expected["files"].as_array().unwrap().iter().map(|file| {
            let name = file.as_str().unwrap();
            (name.strip_prefix("ckpt/").unwrap().to_owned(), std::fs::read(case.join(name)).unwrap())
        });
        let (source, context) = (crate::common::source(files.collect::<Files>()), MemoryContext::default());
        let view = MemoryView::read(&DeepSpeed, &[], &source, &context).unwrap();
        let wanted = expected["tensors"].as_object().unwrap();
        let catalog = view.catalog();
        assert_eq!(catalog.tensors().len(), wanted.len(), "{}", case.display());
        for (name, tensor) in wanted {
            assert_eq!(facts(&view, name), facts_of(tensor), "{}: {name}", case.display());
            tensors += 1;
        }
        let tied = |name: &str| catalog.tensors().iter().position(|tensor| tensor.name == name).unwrap();
        let ties = catalog.ties();
        for (alias, source) in expected["shared_params"].as_object().unwrap() {
            assert_eq!(ties[tied(alias)], ties[tied(source.as_str().unwrap())], "{alias}");
        }
    }
    assert_eq!((cases.len(), tensors), (4, 62));
}
