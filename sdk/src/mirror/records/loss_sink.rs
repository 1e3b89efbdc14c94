//! Passes a [`LossSink`] across the boundary.

use super::super::loss::{decode_loss, encode_loss};
use crate::{Loss, LossSink, Result};
use tensorferry_abi::{Borrowed, Failure, LossFacts, LossSinkCalls, LossSinkTable};

pub(super) struct LentLossSink<'a>(pub(super) &'a mut dyn LossSink);

impl LossSinkCalls for LentLossSink<'_> {
    fn loss(&mut self, loss: LossFacts<'_>) -> Result<(), Failure> {
        Ok(self.0.loss(decode_loss(&loss))?)
    }
}

pub(super) struct RemoteLossSink<'a>(pub(super) Borrowed<'a, LossSinkTable>);

impl LossSink for RemoteLossSink<'_> {
    fn loss(&mut self, loss: Loss) -> Result<()> {
        Ok(self.0.loss(encode_loss(&loss))?)
    }
}
