//! Renews credentials if a store reports that the credentials have expired earlier than expected.
//! Credentials can be renewed only if new ones can be fetched.

use object_store::aws::AwsCredential;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The keys of an AWS profile, and the time at which they were requested. The mutex is locked while
/// keys are fetched.
pub(crate) type Keys = tokio::sync::Mutex<Option<(Instant, Arc<AwsCredential>)>>;

/// Tracks which credentials are valid. Credentials that were fetched before the last renewal are
/// invalid.
#[derive(Debug, Default)]
pub(crate) struct Renewal(Mutex<RenewalState>);

#[derive(Debug, Default)]
struct RenewalState {
    /// Whether new credentials can be fetched.
    is_possible: bool,
    renewed: Option<Instant>,
}

/// Minimum time between two renewals. Shortly after a renewal, requests that were signed with the
/// old credentials may still fail. Such failures must not cause another renewal.
const MIN_INTERVAL: Duration = Duration::from_secs(5);

impl Renewal {
    fn state(&self) -> std::sync::MutexGuard<'_, RenewalState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that new credentials can be fetched.
    pub(crate) fn is_possible(&self) {
        self.state().is_possible = true;
    }

    /// Requests a renewal. Returns whether new credentials can be fetched.
    pub(crate) fn ask(&self) -> bool {
        let mut state = self.state();
        if state.is_possible && state.renewed.is_none_or(|then| then.elapsed() > MIN_INTERVAL) {
            state.renewed = Some(Instant::now());
        }
        state.is_possible
    }

    /// Returns whether credentials that were fetched at the time `fetched` are still valid.
    pub(crate) fn holds(&self, fetched: Instant) -> bool {
        self.state().renewed.is_none_or(|renewed| renewed < fetched)
    }
}
