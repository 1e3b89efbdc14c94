//! Defines the grid of ranks, and the name of the folder for each rank.

/// The position of a rank in the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Rank {
    /// Pipeline stage.
    pub stage: u64,
    /// Expert-parallel rank.
    pub expert: u64,
    /// Tensor-parallel rank.
    pub tensor: u64,
}

/// The size of the grid for each kind of parallelism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GridSize {
    /// Number of tensor-parallel ranks.
    pub tensor: u64,
    /// Number of pipeline stages.
    pub stages: u64,
    /// Number of expert-parallel ranks.
    pub experts: u64,
}

impl GridSize {
    /// Iterates over all positions in the grid. The pipeline stage changes slowest, and the
    /// tensor-parallel rank changes fastest.
    pub fn ranks(self) -> impl Iterator<Item = Rank> {
        let in_stage = move |stage| {
            let of_expert = move |expert| (0..self.tensor).map(move |tensor| Rank { stage, expert, tensor });
            (0..self.experts).flat_map(of_expert)
        };
        (0..self.stages).flat_map(in_stage)
    }

    /// Returns the name of the folder that Megatron uses for a rank.
    #[must_use]
    pub fn folder(self, rank: Rank) -> String {
        let stage = if self.stages > 1 { format!("_{:03}", rank.stage) } else { String::new() };
        let expert = if self.experts > 1 { format!("_{:03}", rank.expert) } else { String::new() };
        format!("mp_rank_{:02}{stage}{expert}", rank.tensor)
    }
}
