//! A fault is a failure that a test requests at a named stage between planning and the end of the
//! commit.
//!
//! `STAGE[@N][=KIND]` makes the process fail when it reaches that stage for the N-th time (default:
//! the first). Without a kind, the process kills itself with SIGKILL, as in a crash. `=stop`
//! suspends the process, as if the machine froze. `=eio` and `=enospc` make the stage return that
//! error instead. Faults exist only in builds with the feature `faults`; in other builds, stages
//! compile to nothing.

#[cfg(any(test, feature = "faults"))]
pub use armed::{reach, reached, set};

use tensorferry_sdk::Result;

/// Whether this build supports faults.
pub const ARE_KNOWN: bool = cfg!(any(test, feature = "faults"));

/// All stages, in the order in which a conversion may reach them. Tests iterate over this list.
pub const STAGES: [&str; 18] = [
    "stage-created",
    "stage-locked",
    "copied",
    "sealed",
    "verified",
    "rename-tried",
    "record-staged",
    "record-written",
    "old-index-removed",
    "file-renamed",
    "old-receipt-removed",
    "index-renamed",
    "stale-removed",
    "folder-carried",
    "folder-renamed",
    "folder-exchanged",
    "old-removed",
    "committed",
];

/// The stages of the `ferry run` process itself, around the journal records and the schemas that it
/// writes.
pub const RUN_STAGES: [&str; 8] = [
    "journal-begun",
    "journal-scanned",
    "schema-found",
    "schema-kept",
    "journal-commit",
    "journal-commit-written",
    "journal-done",
    "journal-done-written",
];

/// Does nothing, because this build does not have the `faults` feature.
#[cfg(not(any(test, feature = "faults")))]
#[inline]
pub fn reach(_stage: &str) -> Result<()> {
    Ok(())
}

/// Returns a usage error, because this build does not have the `faults` feature.
#[cfg(not(any(test, feature = "faults")))]
pub fn set(_fault: &str) -> Result<()> {
    Err(tensorferry_sdk::Error::usage("built without the feature `faults`"))
}

#[cfg(any(test, feature = "faults"))]
mod armed {
    use super::{RUN_STAGES, Result, STAGES};
    use rustix::io::Errno;
    use rustix::process::{Signal, getpid, kill_process};
    use std::cell::RefCell;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;
    use tensorferry_sdk::Error;

    static FAULT: OnceLock<Fault> = OnceLock::new();

    thread_local! {
        /// The stages that this thread has reached, if a test records them.
        static REACHED: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Kind {
        Signal(Signal),
        Error(Errno),
    }

    #[derive(Debug)]
    struct Fault {
        stage: String,
        kind: Kind,
        /// The number of times that the stage can still be reached before the fault occurs.
        passes: AtomicU32,
    }

    /// Sets this process's fault. Returns an error if a fault is already set.
    pub fn set(fault: &str) -> Result<()> {
        FAULT.set(parse(fault)?).map_err(|_| Error::usage("a fault is already set"))
    }

    /// Runs `work`. Returns its result, and the stages that it reached in this thread, in order.
    pub fn reached<T>(work: impl FnOnce() -> T) -> (T, Vec<String>) {
        REACHED.set(Some(Vec::new()));
        let result = work();
        (result, REACHED.take().unwrap_or_default())
    }

    /// Records that a stage has been reached, and triggers the fault if a test requested one at
    /// this stage.
    pub fn reach(stage: &str) -> Result<()> {
        debug_assert!(is_known(stage), "{stage} is not a known stage");
        REACHED.with_borrow_mut(|reached| {
            if let Some(reached) = reached {
                reached.push(stage.to_owned());
            }
        });
        let Some(fault) = FAULT.get().filter(|fault| fault.stage == stage) else { return Ok(()) };
        let passed = |left: u32| left.checked_sub(1);
        if fault.passes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, passed).is_ok() {
            return Ok(());
        }
        match fault.kind {
            Kind::Signal(signal) => {
                // Fail only once: a suspended process that is resumed continues normally.
                fault.passes.store(u32::MAX, Ordering::Relaxed);
                // A process may always signal itself, and SIGKILL does not return.
                let _ = kill_process(getpid(), signal);
                // SIGSTOP does not stop all threads at the same moment. This thread must not
                // continue before it is stopped.
                std::thread::sleep(Duration::from_millis(100));
                Ok(())
            }
            Kind::Error(errno) => {
                let error = Error::from(std::io::Error::from(errno));
                Err(error.context(format!("the requested fault at {stage}")))
            }
        }
    }

    fn is_known(stage: &str) -> bool {
        STAGES.contains(&stage) || RUN_STAGES.contains(&stage)
    }

    fn parse(text: &str) -> Result<Fault> {
        let unknown =
            || Error::usage(format!("unknown fault {text:?}")).hint("pass STAGE[@N][=stop|=eio|=enospc]");
        let (place, kind) = match text.split_once('=') {
            None => (text, Kind::Signal(Signal::KILL)),
            Some((place, "stop")) => (place, Kind::Signal(Signal::STOP)),
            Some((place, "eio")) => (place, Kind::Error(Errno::IO)),
            Some((place, "enospc")) => (place, Kind::Error(Errno::NOSPC)),
            Some(_) => return Err(unknown()),
        };
        let (stage, nth) = match place.split_once('@') {
            None => (place, 1),
            Some((stage, nth)) => (stage, nth.parse().map_err(|_| unknown())?),
        };
        let passes = u32::checked_sub(nth, 1).filter(|_| is_known(stage)).ok_or_else(unknown)?;
        Ok(Fault { stage: stage.to_owned(), kind, passes: AtomicU32::new(passes) })
    }

    #[cfg(test)]
    mod tests {
        #![expect(clippy::unwrap_used, reason = "tests")]
        use super::*;

        #[test]
        fn a_fault_is_a_stage_a_count_and_a_kind() {
            let fault = parse("file-renamed@3=eio").unwrap();
            assert_eq!((fault.stage.as_str(), fault.passes.into_inner()), ("file-renamed", 2));
            assert_eq!(fault.kind, Kind::Error(Errno::IO));
            assert_eq!(parse("copied").unwrap().kind, Kind::Signal(Signal::KILL));
            for wrong in ["", "nowhere", "copied@0", "copied@x", "copied=boom"] {
                assert!(parse(wrong).is_err(), "{wrong}");
            }
        }
    }
}
