//! A loss as reports and receipts have it: what could not be carried, and why.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use tensorferry_sdk::{Loss, Severity};

/// A loss as JSON has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossRecord<'a> {
    /// The kind's word.
    pub kind: Cow<'a, str>,
    /// How bad it is: `lost`, `changed`, `note`. Earlier documents do not say.
    #[serde(default = "worst")]
    pub severity: Cow<'a, str>,
    /// Whether it follows from what the user asked for.
    #[serde(default)]
    pub asked: bool,
    /// What is not there.
    pub what: Cow<'a, str>,
    /// Why.
    pub why: Cow<'a, str>,
}

impl<'a> LossRecord<'a> {
    /// The record of a loss.
    #[must_use]
    pub fn of(loss: &'a Loss) -> Self {
        Self {
            kind: loss.kind.word().into(),
            severity: loss.severity.word().into(),
            asked: loss.asked,
            what: (&loss.what).into(),
            why: (&loss.why).into(),
        }
    }

    /// The record, on its own.
    #[must_use]
    pub fn into_owned(self) -> LossRecord<'static> {
        let Self { kind, severity, asked, what, why } = self;
        let [kind, severity, what, why] =
            [kind, severity, what, why].map(|text| Cow::Owned(text.into_owned()));
        LossRecord { kind, severity, asked, what, why }
    }
}

fn worst() -> Cow<'static, str> {
    Severity::Lost.word().into()
}
