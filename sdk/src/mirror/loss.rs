//! A [`Loss`] across the boundary.

use crate::{Loss, LossKind, Severity};
use tensorferry_abi::AbiLoss;

pub(super) fn sent_loss(loss: &Loss) -> AbiLoss<'_> {
    let severity = match loss.severity {
        Severity::Lost => 0,
        Severity::Changed => 1,
        Severity::Note => 2,
    };
    let [kind, what, why] = [loss.kind.word(), &loss.what, &loss.why].map(Into::into);
    AbiLoss { kind, severity, asked: loss.asked, what, why }
}

pub(super) fn received_loss(loss: AbiLoss<'_>) -> Loss {
    // A kind that this side does not know is still a loss: state is what is left when nothing fits. A severity that
    // it does not know is the worst.
    let kind = LossKind::named(loss.kind.as_str()).unwrap_or(LossKind::State);
    let severity = match loss.severity {
        1 => Severity::Changed,
        2 => Severity::Note,
        _ => Severity::Lost,
    };
    let received = Loss::new(kind, loss.what.as_str(), loss.why.as_str()).severity(severity);
    if loss.asked { received.asked_for() } else { received }
}
