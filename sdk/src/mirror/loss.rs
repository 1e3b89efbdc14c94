//! Passes a [`Loss`] across the boundary.

use crate::{Loss, LossKind, Severity};
use tensorferry_abi::LossFacts;

pub(super) fn encode_loss(loss: &Loss) -> LossFacts<'_> {
    let severity = match loss.severity {
        Severity::Lost => 0,
        Severity::Changed => 1,
        Severity::Note => 2,
    };
    LossFacts { kind: loss.kind.word(), severity, asked: loss.requested, what: &loss.what, why: &loss.why }
}

pub(super) fn decode_loss(loss: &LossFacts<'_>) -> Loss {
    // If this side does not know the kind of a loss, the loss becomes one of the most general kind,
    // which is state. An unknown severity becomes the worst severity.
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
