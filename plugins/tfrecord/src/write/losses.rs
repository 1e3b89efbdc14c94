//! Counts what values lose when they become features.

use super::layout::Layout;
use tensorferry_sdk::{Loss, LossKind};

/// What values lost, by feature.
#[derive(Debug, Default)]
pub(super) struct Losses {
    features: Vec<Lost>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Lost {
    imprecise: u64,
    of: u64,
    nulls: u64,
}

impl Losses {
    fn of(&mut self, feature: usize) -> &mut Lost {
        if self.features.len() <= feature {
            self.features.resize(feature + 1, Lost::default());
        }
        &mut self.features[feature]
    }

    /// So many values of a feature were narrowed and are not what they were.
    pub(super) fn precision(&mut self, feature: usize, count: u64, of: u64) {
        let lost = self.of(feature);
        lost.imprecise += count;
        lost.of += of;
    }

    /// So many nulls within lists of a feature were left out.
    pub(super) fn nulls(&mut self, feature: usize, count: u64) {
        self.of(feature).nulls += count;
    }

    /// The losses of a piece.
    pub(super) fn finish(self, layout: &Layout) -> Vec<Loss> {
        let mut losses = Vec::new();
        for (lost, feature) in self.features.iter().zip(&layout.features) {
            if lost.imprecise > 0 {
                let why =
                    format!("{} of {} values lost digits: a float_list has 32 bits", lost.imprecise, lost.of);
                losses.push(Loss::new(LossKind::Precision, feature.column.clone(), why));
            }
            if lost.nulls > 0 {
                let why = format!("{} nulls within lists left out: a list of values has none", lost.nulls);
                losses.push(Loss::new(LossKind::Record, feature.column.clone(), why));
            }
        }
        losses
    }
}
