//! The reader of Megatron's ranks comes back from whatever bytes one of their files has.

use crate::{drive, targets};

#[test]
#[ignore = "fuzzes for two seconds a target"]
fn survives_mutated_rank_files() {
    drive("megatron_ranks", &targets::seeds_of_ranks("megatron_ranks"));
}
