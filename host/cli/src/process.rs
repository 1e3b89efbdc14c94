//! Configures the process: signal handlers and the limit on open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tensorferry::Session;
use tensorferry_sdk::{Error, Result};

/// Time after a signal within which a run should end cleanly.
const SHUTDOWN_TIME: Duration = Duration::from_secs(10);

/// Installs signal handlers and raises the limit on open files to its maximum. After Ctrl-C, the
/// run ends cleanly. After a second Ctrl-C or ten seconds, the process ends immediately. A write
/// beyond RLIMIT_FSIZE then causes a write error and does not end the process.
pub(super) fn prepare(session: &Session) -> Result<()> {
    let cancel = session.cancel_flag();
    let failed = |e: std::io::Error| Error::from(e).context("cannot handle signals");
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 130, cancel.clone()).map_err(failed)?;
        flag::register(signal, cancel.clone()).map_err(failed)?;
    }
    // A plugin call that hangs does not check the cancel flag.
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(failed)?;
    let watcher = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if signals.forever().next().is_some() {
            std::thread::sleep(SHUTDOWN_TIME);
            // Exits without running the destructors of libraries, because the destructors might
            // wait for the call that hangs.
            signal_hook::low_level::exit(130);
        }
    });
    watcher.map_err(failed)?;
    flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map_err(failed)?;
    let files = getrlimit(Resource::Nofile);
    // If the limit cannot be raised, it remains unchanged.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files });
    Ok(())
}
