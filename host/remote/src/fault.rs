//! A fault describes why a transfer failed and whether a retry may help.

use std::time::{Duration, Instant};
use tensorferry_sdk::{Error, ErrorKind};

#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) error: Error,
    pub(crate) remedy: Remedy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Retry, but first wait for the time that the server requested, if any.
    Retry(Option<Duration>),
    /// Do not retry, because the file has changed.
    Changed,
    None,
}

impl Fault {
    pub(crate) fn transient(message: impl Into<String>) -> Self {
        Self { error: Error::transient(message), remedy: Remedy::Retry(None) }
    }

    pub(crate) fn permanent(error: Error) -> Self {
        Self { error, remedy: Remedy::None }
    }

    /// Creates the fault for a file that has changed since it was opened.
    pub(crate) fn changed(name: &str, expected: &str, found: &str) -> Self {
        let error =
            Error::transient("changed while it was being read").file(name).expected(expected).found(found);
        Self { error, remedy: Remedy::Changed }
    }

    /// Adds the name of the file to the error.
    pub(crate) fn of(mut self, name: &str) -> Self {
        self.error = self.error.file(name);
        self
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::permanent(error)
    }
}

/// Limits the number and the duration of retries without progress.
#[derive(Debug, Clone)]
pub(crate) struct RetryLimits {
    most: usize,
    within: Duration,
    tries: usize,
    since: Instant,
}

/// Length of the first pause. Each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(20);

impl RetryLimits {
    /// Allows up to `most` attempts within the time `within`.
    pub(crate) fn new(most: usize, within: Duration) -> Self {
        Self { most, within, tries: 1, since: Instant::now() }
    }

    /// Resets the limits after progress.
    pub(crate) fn renew(&mut self) {
        self.tries = 1;
        self.since = Instant::now();
    }

    /// Waits before the next attempt, or returns the fault if the limits are reached.
    pub(crate) async fn wait(&mut self, fault: Fault) -> Result<(), Fault> {
        let Remedy::Retry(asked) = fault.remedy else { return Err(fault) };
        let doublings = u32::try_from(self.tries - 1).unwrap_or(u32::MAX).min(16);
        let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(MAX_PAUSE);
        // Pauses have a random length between half and all of `pause`, so that clients that failed
        // together do not retry together.
        let pause = pause.mul_f64(0.5 + 0.5 * chance());
        let pause = asked.map_or(pause, |asked| asked + pause.min(Duration::from_secs(1)));
        let is_over = self.since.elapsed() + pause > self.within;
        if self.tries >= self.most || is_over {
            let why = match asked {
                Some(asked) if is_over => {
                    format!(
                        "the server asks to wait {} s, but retry-time is {} s",
                        asked.as_secs(),
                        self.within.as_secs()
                    )
                }
                _ => format!("{} in {:.1} s", tries(self.tries), self.since.elapsed().as_secs_f32()),
            };
            return Err(Fault::permanent(with_reason(&fault.error, &why)));
        }
        self.tries += 1;
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

fn tries(count: usize) -> String {
    if count == 1 { "one try".into() } else { format!("{count} tries") }
}

/// Appends the reason why there are no more retries to the error message.
fn with_reason(error: &Error, why: &str) -> Error {
    let file = error.details().find(|(name, _)| *name == "file").map(|(_, file)| file);
    let new = Error::new(
        if error.kind() == ErrorKind::Io { ErrorKind::Transient } else { error.kind() },
        format!("{} ({why})", error.message()),
    );
    match file {
        Some(file) => new.file(file),
        None => new,
    }
}

/// Joins the messages of an error and its causes, without repetitions.
pub(crate) fn causes(error: &dyn std::error::Error) -> String {
    let mut texts = vec![error.to_string()];
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !texts.iter().any(|known| known.contains(&text)) {
            texts.push(text);
        }
        next = cause.source();
    }
    // The outermost message states only that a request failed, so it is left out.
    if texts.len() > 1 { texts[1..].join(": ") } else { texts.remove(0) }
}

/// Returns a number from 0 to 1 that is random enough for pauses.
fn chance() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let bits = RandomState::new().hash_one(0_u8) >> 40;
    f64::from(u32::try_from(bits).unwrap_or(0)) / f64::from(1 << 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_spread() {
        let chances: Vec<f64> = (0..64).map(|_| chance()).collect();
        assert!(chances.iter().all(|chance| (0.0..1.0).contains(chance)), "{chances:?}");
        assert!(chances.iter().any(|chance| *chance < 0.4) && chances.iter().any(|chance| *chance > 0.6));
    }

    #[test]
    fn what_cannot_be_mended_is_not_tried_again() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let mut retry_limits = RetryLimits::new(2, Duration::from_secs(5));
            retry_limits.wait(Fault::transient("busy")).await.unwrap();
            let end = retry_limits.wait(Fault::transient("busy")).await.unwrap_err();
            assert!(end.error.to_string().contains("busy (2 tries in 0."), "{}", end.error);
            retry_limits.renew();
            retry_limits.wait(Fault::permanent(Error::io("no"))).await.unwrap_err();
            let asked =
                Fault { remedy: Remedy::Retry(Some(Duration::from_secs(60))), ..Fault::transient("busy") };
            let end = retry_limits.wait(asked).await.unwrap_err();
            assert!(
                end.error.to_string().contains("asks to wait 60 s, but retry-time is 5 s"),
                "{}",
                end.error
            );
        });
    }
}
