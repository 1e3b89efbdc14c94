//! Tests that the reader of ZeRO checkpoints handles arbitrary bytes in the file of one rank
//! without a panic.

use crate::{drive, targets};

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_rank_files() {
    for target in ["deepspeed_zero2_bf16", "deepspeed_zero3_fp32"] {
        drive(target, &targets::seeds_of_ranks(target));
    }
}
