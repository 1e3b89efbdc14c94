//! Renews credentials that a store calls expired before their time, if a source of new ones exists.

use object_store::aws::AwsCredential;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The keys of the profile and the time when they were requested. Locked while they are fetched.
pub(crate) type Keys = tokio::sync::Mutex<Option<(Instant, Arc<AwsCredential>)>>;

/// Tracks which credentials are valid: those fetched before the last renewal are not.
#[derive(Debug, Default)]
pub(crate) struct Renewal(Mutex<RenewalState>);

#[derive(Debug, Default)]
struct RenewalState {
    /// Whether a source of new credentials exists.
    is_possible: bool,
    renewed: Option<Instant>,
}

/// Minimum time between renewals. Requests signed before a renewal still fail shortly after it.
const ONCE_WITHIN: Duration = Duration::from_secs(5);

impl Renewal {
    fn state(&self) -> std::sync::MutexGuard<'_, RenewalState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a source of new credentials exists.
    pub(crate) fn is_possible(&self) {
        self.state().is_possible = true;
    }

    /// Requests new credentials, and returns whether that can help.
    pub(crate) fn ask(&self) -> bool {
        let mut state = self.state();
        if state.is_possible && state.renewed.is_none_or(|then| then.elapsed() > ONCE_WITHIN) {
            state.renewed = Some(Instant::now());
        }
        state.is_possible
    }

    /// Returns whether credentials that were fetched at this time are still valid.
    pub(crate) fn holds(&self, fetched: Instant) -> bool {
        self.state().renewed.is_none_or(|renewed| renewed < fetched)
    }
}
