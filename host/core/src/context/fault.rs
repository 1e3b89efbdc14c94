//! A fault is a failure that a test asks for, at a named moment between planning and the end of the commit.
//!
//! `FERRY_FAULT=STAGE[@N][=KIND]` makes the process fail when it reaches that stage for the N-th time (the
//! first, if not said). Without a kind it kills itself with SIGKILL, as a crash would; `=eio` and `=enospc`
//! make the stage return that error instead. Only builds with debug assertions look at the variable.

use tensorferry_sdk::Result;

/// Every stage there is, in the order in which a run may come to them, so that a test can walk them all.
pub const STAGES: [&str; 16] = [
    "stage-created",
    "stage-locked",
    "copied",
    "sealed",
    "verified",
    "record-staged",
    "record-written",
    "old-index-removed",
    "file-renamed",
    "index-renamed",
    "stale-removed",
    "folder-carried",
    "folder-renamed",
    "folder-exchanged",
    "old-removed",
    "committed",
];

/// The stages of `ferry run`'s own process, around each record of its journal and each schema that it keeps.
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

/// Marks that a stage has been reached.
///
/// # Errors
/// What `FERRY_FAULT` asks for; and usage, where it names a stage or a kind that does not exist.
#[cfg(not(debug_assertions))]
#[inline]
pub fn reach(_stage: &str) -> Result<()> {
    Ok(())
}

#[cfg(debug_assertions)]
pub use armed::reach;

#[cfg(debug_assertions)]
mod armed {
    use super::{RUN_STAGES, Result, STAGES};
    use rustix::io::Errno;
    use rustix::process::{Signal, getpid, kill_process};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tensorferry_sdk::Error;

    struct Fault {
        stage: String,
        kind: Kind,
        /// How many times the stage is still to be passed unharmed.
        passes: AtomicU32,
    }

    enum Kind {
        Kill,
        Error(Errno),
    }

    /// Marks that a stage has been reached.
    ///
    /// # Errors
    /// What `FERRY_FAULT` asks for; and usage, where it names a stage or a kind that does not exist.
    pub fn reach(stage: &str) -> Result<()> {
        debug_assert!(is_known(stage), "{stage} is not in the lists");
        static FAULT: OnceLock<Result<Option<Fault>>> = OnceLock::new();
        let wanted = FAULT.get_or_init(|| std::env::var("FERRY_FAULT").ok().map(|f| parse(&f)).transpose());
        let fault = match wanted {
            Ok(Some(fault)) if fault.stage == stage => fault,
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.clone()),
        };
        let passed = |left: u32| left.checked_sub(1);
        if fault.passes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, passed).is_ok() {
            return Ok(());
        }
        match fault.kind {
            Kind::Kill => {
                // A process may always signal itself, and SIGKILL does not return.
                let _ = kill_process(getpid(), Signal::KILL);
                Ok(())
            }
            Kind::Error(errno) => {
                Err(Error::from(std::io::Error::from(errno))
                    .context(format!("the fault asked for at {stage}")))
            }
        }
    }

    fn is_known(stage: &str) -> bool {
        STAGES.contains(&stage) || RUN_STAGES.contains(&stage)
    }

    fn parse(text: &str) -> Result<Fault> {
        let unknown = || {
            Error::usage("FERRY_FAULT names no stage and kind that exist")
                .expected("STAGE[@N][=eio|=enospc]")
                .found(format!("{text:?}"))
        };
        let (place, kind) = match text.split_once('=') {
            None => (text, Kind::Kill),
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
            assert!(matches!(fault.kind, Kind::Error(Errno::IO)));
            assert!(matches!(parse("copied").unwrap().kind, Kind::Kill));
            for wrong in ["", "nowhere", "copied@0", "copied@x", "copied=boom"] {
                assert!(parse(wrong).is_err(), "{wrong}");
            }
        }
    }
}
