//! What the process asks of the system before it works: signals, descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tensorferry::Session;
use tensorferry_sdk::{Error, Result};

/// How long a run has to end cleanly.
const TO_END: Duration = Duration::from_secs(10);

/// Ctrl-C ends the run cleanly, a second one, or ten seconds, at once; a file over RLIMIT_FSIZE is an error of the
/// write and not the end of the process; many files may be open.
pub(super) fn prepare(session: &Session) -> Result<()> {
    let cancel = session.cancel_flag();
    let failed = |e: std::io::Error| Error::from(e).context("cannot handle signals");
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 130, cancel.clone()).map_err(failed)?;
        flag::register(signal, cancel.clone()).map_err(failed)?;
    }
    // A call that waits for what never comes does not look at the flag.
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let watcher = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if signals.forever().next().is_some() {
            std::thread::sleep(TO_END);
            // At once: the libraries' own ends would wait for the call as well.
            signal_hook::low_level::exit(130);
        }
    });
    watcher.map_err(failed)?;
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map_err(failed)?;
    let files = getrlimit(Resource::Nofile);
    // Where it may not be raised, the run goes on with what it has.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files });
    Ok(())
}
