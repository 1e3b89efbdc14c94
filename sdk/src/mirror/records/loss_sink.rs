//! [`LossSink`] across the boundary.

use super::super::guard::{guard, received};
use super::super::loss::{received_loss, sent_loss};
use crate::{Loss, LossSink, Result};
use tensorferry_abi::{self as abi, AbiLoss, AbiResult, LossSinkMut};

pub(super) struct LentLossSink<'a>(pub(super) &'a mut dyn LossSink);

impl abi::LossSink for LentLossSink<'_> {
    fn loss(&mut self, loss: AbiLoss<'_>) -> AbiResult<()> {
        guard("losses.loss", || self.0.loss(received_loss(loss)))
    }
}

pub(super) struct RemoteLossSink<'a>(pub(super) LossSinkMut<'a>);

impl LossSink for RemoteLossSink<'_> {
    fn loss(&mut self, loss: Loss) -> Result<()> {
        received(self.0.loss(sent_loss(&loss)))
    }
}
