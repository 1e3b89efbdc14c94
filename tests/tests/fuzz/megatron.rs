//! Tests that the reader of Megatron checkpoints handles arbitrary bytes in the file of one rank
//! without a panic.

use crate::{drive, targets};

#[test]
#[ignore = "fuzzes each target for two seconds"]
fn survives_mutated_rank_files() {
    drive("megatron_ranks", &targets::seeds_of_ranks("megatron_ranks"));
}
