//! The reader of Megatron checkpoints survives any bytes in the file of one rank.

use crate::{drive, targets};

#[test]
#[ignore = "fuzzes for two seconds a target"]
fn survives_mutated_rank_files() {
    drive("megatron_ranks", &targets::seeds_of_ranks("megatron_ranks"));
}
