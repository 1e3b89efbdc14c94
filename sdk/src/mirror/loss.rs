//! A [`Loss`] across the boundary.

use crate::{Loss, LossKind, Severity};
use tensorferry_abi::LossFacts;

pub(super) fn sent_loss(loss: &Loss) -> LossFacts<'_> {
    let severity = match loss.severity {
        Severity::Lost => 0,
        Severity::Changed => 1,
        Severity::Note => 2,
    };
    LossFacts { kind: loss.kind.word(), severity, asked: loss.requested, what: &loss.what, why: &loss.why }
}

pub(super) fn received_loss(loss: &LossFacts<'_>) -> Loss {
    // A kind that this side does not know is still a loss, and becomes the most general kind,
    // state. An unknown severity becomes the worst.
    let named = LossKind::named(loss.kind).filter(|kind| *kind != LossKind::Input);
    let kind = named.unwrap_or(LossKind::State);
    let severity = match loss.severity {
        1 => Severity::Changed,
        2 => Severity::Note,
        _ => Severity::Lost,
    };
    let received = Loss::new(kind, loss.what, loss.why).severity(severity);
    if loss.asked { received.requested_by_user() } else { received }
}
