//! Merges the settings of a job from `[defaults]`, the job's entry and a rule.

use crate::job::{JobPolicy, Timeout};
use crate::manifest::types::{OptionTexts, ReceiptSetting, Settings, Timespan};
use tensorferry::places::InputFolder;
use tensorferry::values::Algorithm;

impl Settings {
    /// Merges these settings with `others`. These settings take precedence over `others`. The
    /// options in `input_options` and `output_options` are merged one by one.
    pub(super) fn merged_over(&self, others: &Self) -> Self {
        let (new, old) = (self.clone(), others.clone());
        Self {
            from: new.from.or(old.from),
            to: new.to.or(old.to),
            input_options: merged(new.input_options, old.input_options),
            output_options: merged(new.output_options, old.output_options),
            part: new.part.or(old.part),
            steps: new.steps.or(old.steps),
            verify: new.verify.or(old.verify),
            receipt: new.receipt.or(old.receipt),
            strict: new.strict.or(old.strict),
            allow_loss: new.allow_loss.or(old.allow_loss),
            allow_empty: new.allow_empty.or(old.allow_empty),
            companions: new.companions.or(old.companions),
            follow_links: new.follow_links.or(old.follow_links),
            force: new.force.or(old.force),
            retries: new.retries.or(old.retries),
            retry_wait: new.retry_wait.or(old.retry_wait),
            memory_limit: new.memory_limit.or(old.memory_limit),
            timeout: new.timeout.or(old.timeout),
        }
    }

    /// Returns the policy of a job whose input is in the given root.
    pub(super) fn policy_below(&self, root: &InputFolder) -> JobPolicy {
        JobPolicy { root: root.is_local().then(|| root.path().to_owned()), ..self.policy() }
    }

    /// Returns the algorithm for the digests in a receipt. Returns `None` if no receipt is written.
    pub(super) fn receipt(&self) -> Option<Algorithm> {
        self.receipt.map_or(Some(Algorithm::Sha256), ReceiptSetting::algorithm)
    }

    pub(super) fn policy(&self) -> JobPolicy {
        let standard = JobPolicy::default();
        JobPolicy {
            follow_links: self.follow_links.unwrap_or(standard.follow_links),
            root: None,
            force: self.force.unwrap_or(standard.force),
            memory: self.memory_limit.map(|size| size.0),
            timeout: match self.timeout {
                None => Timeout::BySize,
                Some(Timespan(None)) => Timeout::Never,
                Some(Timespan(Some(time))) => Timeout::After(time),
            },
            retries: self.retries.unwrap_or(standard.retries),
            retry_wait: self.retry_wait.and_then(|span| span.0).unwrap_or(standard.retry_wait),
        }
    }
}

fn merged(new: Option<OptionTexts>, old: Option<OptionTexts>) -> Option<OptionTexts> {
    match (new, old) {
        (Some(new), Some(mut old)) => {
            old.extend(new);
            Some(old)
        }
        (new, old) => new.or(old),
    }
}
