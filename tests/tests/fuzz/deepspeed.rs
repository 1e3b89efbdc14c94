//! The reader of ZeRO checkpoints survives any bytes in the file of one rank.

use crate::{drive, targets};

#[test]
#[ignore = "fuzzes for two seconds a target"]
fn survives_mutated_rank_files() {
    for target in ["deepspeed_zero2_bf16", "deepspeed_zero3_fp32"] {
        drive(target, &targets::seeds_of_ranks(target));
    }
}
