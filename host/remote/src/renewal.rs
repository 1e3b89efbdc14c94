//! Credentials that a store calls expired before their time are fetched anew, where there are others to be had.

use object_store::aws::AwsCredential;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What the profile gave, and when it was asked; locked while it is asked.
pub(crate) type Keys = tokio::sync::Mutex<Option<(Instant, Arc<AwsCredential>)>>;

/// Which credentials hold: those that were fetched before the last renewal do not.
#[derive(Debug, Default)]
pub(crate) struct Renewal(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Whether anything gives other credentials.
    is_possible: bool,
    renewed: Option<Instant>,
}

/// Requests that were signed before a renewal fail a little after it, too.
const ONCE_WITHIN: Duration = Duration::from_secs(5);

impl Renewal {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that there is what gives other credentials.
    pub(crate) fn is_possible(&self) {
        self.state().is_possible = true;
    }

    /// Has credentials fetched anew; gives whether that can help.
    pub(crate) fn ask(&self) -> bool {
        let mut state = self.state();
        if state.is_possible && state.renewed.is_none_or(|then| then.elapsed() > ONCE_WITHIN) {
            state.renewed = Some(Instant::now());
        }
        state.is_possible
    }

    /// Whether what was fetched then still holds.
    pub(crate) fn holds(&self, fetched: Instant) -> bool {
        self.state().renewed.is_none_or(|renewed| renewed < fetched)
    }
}
