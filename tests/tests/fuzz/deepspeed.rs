//! The reader of ZeRO checkpoints comes back from whatever bytes one of the ranks' files has.

use crate::formats::DeepSpeed;
use tensorferry_tests::fuzz;
use tensorferry_tests::zip::{bare, members};

#[test]
#[ignore = "fuzzes for ten seconds a target"]
fn survives_mutated_rank_files() {
    for case in ["zero2_bf16", "zero3_fp32"] {
        let mut files = fuzz::files_of(&format!("deepspeed/{case}/ckpt"));
        for (_, bytes) in files.iter_mut().filter(|(name, _)| name.ends_with(".pt")) {
            *bytes = bare(&members(bytes));
        }
        // Which file is mutated lies in the first byte.
        let tag = |index: usize| u8::try_from(index).unwrap();
        let seeds: Vec<_> = files
            .iter()
            .enumerate()
            .map(|(index, (_, bytes))| [&[tag(index)], &bytes[..]].concat())
            .collect();
        let read = |bytes: &[u8]| match bytes.split_first() {
            Some((&index, bytes)) => {
                let (name, _) = &files[usize::from(index) % files.len()];
                fuzz::read_among(&DeepSpeed, &files, name, bytes)
            }
            None => false,
        };
        assert!(seeds.iter().all(|seed| read(seed)), "{case}");
        fuzz::drive(&format!("deepspeed_{case}"), &seeds, read);
    }
}
