//! [`LossSink`] across the boundary.

use super::super::catalog_sink::{loss, severity_number};
use super::super::guard::{guard, received};
use crate::{Loss, LossSink, Result};
use tensorferry_abi::abi_stable::std_types::RStr;
use tensorferry_abi::{self as abi, AbiResult, LossSinkMut};

pub(super) struct LentLossSink<'a>(pub(super) &'a mut dyn LossSink);

impl abi::LossSink for LentLossSink<'_> {
    fn loss(
        &mut self,
        kind: RStr<'_>,
        severity: u32,
        asked: bool,
        what: RStr<'_>,
        why: RStr<'_>,
    ) -> AbiResult<()> {
        guard("losses.loss", || self.0.loss(loss(kind, severity, asked, what, why)))
    }
}

pub(super) struct RemoteLossSink<'a>(pub(super) LossSinkMut<'a>);

impl LossSink for RemoteLossSink<'_> {
    fn loss(&mut self, loss: Loss) -> Result<()> {
        let severity = severity_number(loss.severity);
        let [kind, what, why] = [loss.kind.word(), &loss.what, &loss.why].map(RStr::from);
        received(self.0.loss(kind, severity, loss.asked, what, why))
    }
}
