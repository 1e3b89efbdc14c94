//! Runs the SDK's conformance suite on runs that have several ranks.

use crate::common::{Rank, one, run};
use tensorferry_megatron::Megatron;
use tensorferry_sdk::Entry;
use tensorferry_sdk::conformance::{Sample, check};

#[test]
fn megatron_conforms() {
    let rank = |values: &[f32]| Rank {
        args: vec![("tensor_model_parallel_size", 2)],
        chunks: vec![vec![
            one("decoder.layers.0.self_attention.linear_proj.weight", &[2, 1], values),
            one("decoder.final_layernorm.weight", &[2], &[7.0, 8.0]),
        ]],
        ..Rank::default()
    };
    let files = run(&[("00", rank(&[1.0, 2.0])), ("01", rank(&[3.0, 4.0]))]);
    let names = ["decoder.layers.0.self_attention.linear_proj.weight", "decoder.final_layernorm.weight"];
    let report = check(&Megatron, &[Sample::set(Entry::Folder, files).holding(&names)]);
    assert!(report.damaged > 1_000, "{report:?}");
}
