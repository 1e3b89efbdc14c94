//! Losses in reports and receipts: the data that was not carried over, and the reason.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use tensorferry_sdk::{Loss, Severity};

/// A reported loss, as serialized to JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossRecord<'a> {
    pub kind: Cow<'a, str>,
    /// `lost`, `changed` or `note`. Documents from earlier versions do not contain this field.
    #[serde(default = "worst")]
    pub severity: Cow<'a, str>,
    /// Whether the loss is a consequence of what the user requested.
    #[serde(default)]
    pub asked: bool,
    /// The item that was lost.
    pub what: Cow<'a, str>,
    pub why: Cow<'a, str>,
}

impl<'a> LossRecord<'a> {
    #[must_use]
    pub fn of(loss: &'a Loss) -> Self {
        Self {
            kind: loss.kind.word().into(),
            severity: loss.severity.word().into(),
            asked: loss.requested,
            what: (&loss.what).into(),
            why: (&loss.why).into(),
        }
    }

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
