//! Formats of rows across the boundary: rows as Arrow C streams, everything else as calls.

mod arrow;
mod plan;
mod reader;
mod set;
mod stream;
mod writer;

pub(super) use reader::{RemoteRecordReader, lend_record_reader};
pub(super) use writer::{RemoteRecordWriter, lend_record_writer};

use super::guard::guard_or;
use crate::{Loss, LossKind};
use tensorferry_abi::AbiLoss;
use tensorferry_abi::abi_stable::std_types::{RVec, Tuple3};

/// What stands for a number that is not known.
const UNKNOWN: u64 = u64::MAX;

fn known(number: u64) -> Option<u64> {
    Some(number).filter(|&number| number != UNKNOWN)
}

fn lent_losses(losses: impl FnOnce() -> Vec<Loss>) -> RVec<AbiLoss> {
    let lent = |loss: Loss| Tuple3(loss.kind.word().into(), loss.what.into(), loss.why.into());
    guard_or(RVec::new(), || losses().into_iter().map(lent).collect())
}

/// Losses as they were; one of a kind that is newer than this host is one of state.
fn received_losses(losses: RVec<AbiLoss>) -> Vec<Loss> {
    let received = |Tuple3(kind, what, why): AbiLoss| {
        Loss::new(LossKind::named(&kind).unwrap_or(LossKind::State), what, why)
    };
    losses.into_iter().map(received).collect()
}
