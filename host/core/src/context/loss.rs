//! A loss as reports and receipts have it: what could not be carried, and why.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use tensorferry_sdk::Loss;

/// A loss as JSON has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossRecord<'a> {
    /// The kind's word.
    pub kind: Cow<'a, str>,
    /// What is not there.
    pub what: Cow<'a, str>,
    /// Why.
    pub why: Cow<'a, str>,
}

impl<'a> LossRecord<'a> {
    /// The record of a loss.
    #[must_use]
    pub fn of(loss: &'a Loss) -> Self {
        Self { kind: loss.kind.word().into(), what: (&loss.what).into(), why: (&loss.why).into() }
    }

    /// The record, on its own.
    #[must_use]
    pub fn into_owned(self) -> LossRecord<'static> {
        let Self { kind, what, why } = self;
        let [kind, what, why] = [kind, what, why].map(|text| Cow::Owned(text.into_owned()));
        LossRecord { kind, what, why }
    }
}
