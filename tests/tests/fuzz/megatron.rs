//! The reader of Megatron checkpoints survives any bytes in the file of one rank.

use crate::{drive, targets};

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_rank_files() {
    drive("megatron_ranks", &targets::seeds_of_ranks("megatron_ranks"));
}
