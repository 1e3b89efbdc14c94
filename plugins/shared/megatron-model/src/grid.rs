//! The grid of ranks, and the folder of each.

/// The position of a rank in the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank {
    /// Pipeline stage.
    pub stage: u64,
    /// Rank of expert parallelism.
    pub expert: u64,
    /// Rank of tensor parallelism.
    pub tensor: u64,
}

/// The number of ranks of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GridSize {
    /// Ranks of tensor parallelism.
    pub tensor: u64,
    /// Pipeline stages.
    pub stages: u64,
    /// Ranks of expert parallelism.
    pub experts: u64,
}

impl GridSize {
    /// Iterates over all positions, with stages outermost and tensor ranks innermost.
    pub fn ranks(self) -> impl Iterator<Item = Rank> {
        let in_stage = move |stage| {
            let of_expert = move |expert| (0..self.tensor).map(move |tensor| Rank { stage, expert, tensor });
            (0..self.experts).flat_map(of_expert)
        };
        (0..self.stages).flat_map(in_stage)
    }

    /// Returns the folder that Megatron uses for a rank.
    #[must_use]
    pub fn folder(self, rank: Rank) -> String {
        let stage = if self.stages > 1 { format!("_{:03}", rank.stage) } else { String::new() };
        let expert = if self.experts > 1 { format!("_{:03}", rank.expert) } else { String::new() };
        format!("mp_rank_{:02}{stage}{expert}", rank.tensor)
    }
}
