//! Counts the losses from converting values to features.

use super::layout::Layout;
use tensorferry_sdk::{Loss, LossKind};

/// The losses of each feature.
#[derive(Debug, Default)]
pub(super) struct Losses {
    features: Vec<FeatureLosses>,
}

#[derive(Debug, Default, Clone, Copy)]
struct FeatureLosses {
    imprecise: u64,
    infinite: u64,
    of: u64,
    nulls: u64,
}

impl Losses {
    fn of(&mut self, feature: usize) -> &mut FeatureLosses {
        if self.features.len() <= feature {
            self.features.resize(feature + 1, FeatureLosses::default());
        }
        &mut self.features[feature]
    }

    /// Records that `of` values of a feature were converted to a narrower type. Of these,
    /// `imprecise` values lost precision, and `infinite` values overflowed.
    pub(super) fn narrowed(&mut self, feature: usize, imprecise: u64, infinite: u64, of: u64) {
        let lost = self.of(feature);
        lost.imprecise += imprecise;
        lost.infinite += infinite;
        lost.of += of;
    }

    /// Counts the nulls that were dropped from inside a feature's lists.
    pub(super) fn nulls(&mut self, feature: usize, count: u64) {
        self.of(feature).nulls += count;
    }

    /// Returns the losses of a piece.
    pub(super) fn finish(self, layout: &Layout) -> Vec<Loss> {
        let mut losses = Vec::new();
        for (lost, feature) in self.features.iter().zip(&layout.features) {
            if lost.imprecise > 0 {
                let why = format!(
                    "{} of {} values lost precision: a float_list stores 32-bit floats",
                    lost.imprecise, lost.of
                );
                losses.push(Loss::new(LossKind::Precision, feature.column.clone(), why));
            }
            let mut gone = Vec::new();
            if lost.infinite > 0 {
                gone.push(format!(
                    "{} of {} values overflowed to infinity: a float_list stores 32-bit floats",
                    lost.infinite, lost.of
                ));
            }
            if lost.nulls > 0 {
                gone.push(format!(
                    "{} nulls inside lists dropped: a list of values cannot contain nulls",
                    lost.nulls
                ));
            }
            if !gone.is_empty() {
                losses.push(Loss::new(LossKind::Record, feature.column.clone(), gone.join("; ")));
            }
        }
        losses
    }
}
