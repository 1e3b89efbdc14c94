//! Inputs and outputs that are URLs: HTTP servers, object stores and the Hugging Face Hub.
//!
//! With the feature `remote`, a registry opens URLs with the settings from the environment, and
//! [`connect`] adds further settings. Without the feature, a session opens only the URLs that its
//! [`Session::remote`] supports.

use std::path::PathBuf;
use std::sync::Arc;
#[cfg(feature = "remote")]
use std::sync::atomic::{AtomicBool, Ordering};
pub use tensorferry_core::context::remote::Remote;
use tensorferry_core::context::session::Session;
use tensorferry_sdk::Result;

/// Settings for this process and the processes that it starts, one `KEY=VALUE` per line. Unlike
/// command-line arguments, these settings are not visible to other users. They override the user's
/// settings file, and command-line arguments override them.
const VARIABLE: &str = "FERRY_STORE";

/// Path of the user's settings file, relative to the configuration folder. The file contains one
/// setting per line, and `#` starts a comment line.
const FILE: &str = "ferry/stores";

/// Creates the [`Remote`] that opens URLs for a session. The settings come from the user's settings
/// file, the environment, and `settings` (each `KEY=VALUE`). Later values take precedence.
/// Prefetching uses up to half of the session's memory. Canceling the session also ends all
/// transfers.
///
/// # Errors
/// Returns an error if a setting does not exist or has an invalid value, or if the settings file
/// cannot be read.
#[cfg(feature = "remote")]
pub fn connect(settings: &[String], session: &Session) -> Result<Arc<dyn Remote>> {
    open(settings, session.memory, session.cancel_flag())
}

#[cfg(feature = "remote")]
fn open(settings: &[String], memory: u64, cancelled: Arc<AtomicBool>) -> Result<Arc<dyn Remote>> {
    let settings = [of_file()?, with_variable(settings)].concat();
    let settings = tensorferry_remote::Settings::new(&settings)?;
    let is_cancelled = move || cancelled.load(Ordering::Relaxed);
    Ok(Arc::new(tensorferry_remote::Remotes::cancelled_by(settings, memory / 2, is_cancelled)))
}

/// Enables URLs in a session that has not been shared and whose `remote` is not set.
#[cfg_attr(not(feature = "remote"), expect(unused_mut, reason = "only the feature `remote` changes it"))]
pub(crate) fn opening_urls(mut session: Arc<Session>) -> Arc<Session> {
    #[cfg(feature = "remote")]
    if let Some(session) = Arc::get_mut(&mut session).filter(|session| session.remote.is_none()) {
        session.remote = Some(Arc::new(later::Later::new(session)));
    }
    session
}

/// Returns a [`Remote`] that rejects every URL, because the program was built without remote
/// access.
///
/// # Errors
/// Returns an error if there are any settings.
#[cfg(not(feature = "remote"))]
pub fn connect(settings: &[String], _: &Session) -> Result<Arc<dyn Remote>> {
    match settings {
        [] => Ok(Arc::new(without::NoStores)),
        _ => Err(without::error()),
    }
}

/// Returns where the credentials for URLs come from, for bug reports: the names of settings,
/// environment variables and files. The list never contains a value.
///
/// # Errors
/// Returns the error that [`connect`] would return for these settings.
#[cfg(feature = "remote")]
pub fn credentials(settings: &[String]) -> Result<Vec<String>> {
    let settings = [of_file()?, with_variable(settings)].concat();
    Ok(tensorferry_remote::Settings::new(&settings)?.credentials())
}

/// Returns no credentials, because the program was built without remote access.
///
/// # Errors
/// Never.
#[cfg(not(feature = "remote"))]
pub fn credentials(_: &[String]) -> Result<Vec<String>> {
    Ok(Vec::new())
}

/// Returns the path of the user's settings file, whether or not it exists; `None` if the user has no
/// home.
#[must_use]
pub fn settings_file() -> Option<PathBuf> {
    let folder =
        |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
    Some(folder?.join(FILE))
}

#[cfg(feature = "remote")]
fn of_file() -> Result<Vec<String>> {
    let path = settings_file();
    // A service may not have permission to access its home folder. In that case, there are no
    // settings.
    let Some(path) = path.filter(|path| path.symlink_metadata().is_ok()) else { return Ok(Vec::new()) };
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let is_setting = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
            Ok(text.lines().filter(is_setting).map(str::to_owned).collect())
        }
        Err(error) => Err(tensorferry_sdk::Error::from(error).file(path.display().to_string())),
    }
}

fn with_variable(settings: &[String]) -> Vec<String> {
    let said = std::env::var(VARIABLE).unwrap_or_default();
    said.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).chain(settings.to_vec()).collect()
}

/// Returns the name and value of the environment variable that passes settings to a child process.
/// The value contains `settings` and the settings that this process itself received through the
/// variable.
#[must_use]
pub fn variable(settings: &[String]) -> (&'static str, String) {
    (VARIABLE, with_variable(settings).join("\n"))
}

/// Delays reading the settings until the program opens a URL.
#[cfg(feature = "remote")]
mod later {
    use super::*;
    use std::sync::OnceLock;
    use tensorferry_core::context::remote::RemotePlace;

    #[derive(Debug)]
    pub(super) struct Later {
        memory: u64,
        cancelled: Arc<AtomicBool>,
        remote: OnceLock<Result<Arc<dyn Remote>>>,
    }

    impl Later {
        pub(super) fn new(session: &Session) -> Self {
            let (memory, cancelled) = (session.memory, session.cancel_flag());
            Self { memory, cancelled, remote: OnceLock::new() }
        }
    }

    impl Remote for Later {
        fn place(&self, url: &str) -> Result<Option<(Arc<dyn RemotePlace>, String)>> {
            let connect = || open(&[], self.memory, self.cancelled.clone());
            self.remote.get_or_init(connect).clone()?.place(url)
        }

        fn take_notes(&self) -> Vec<String> {
            let remote = self.remote.get().and_then(|remote| remote.as_ref().ok());
            remote.map(|remote| remote.take_notes()).unwrap_or_default()
        }
    }
}

#[cfg(not(feature = "remote"))]
mod without {
    use super::*;
    use std::path::Path;
    use tensorferry_core::context::remote::RemotePlace;
    use tensorferry_core::read::folder::shown;
    use tensorferry_sdk::Error;

    #[derive(Debug)]
    pub(super) struct NoStores;

    impl Remote for NoStores {
        fn place(&self, url: &str) -> Result<Option<(Arc<dyn RemotePlace>, String)>> {
            Err(error().file(shown(Path::new(url))))
        }
    }

    pub(super) fn error() -> Error {
        Error::usage("this program was built without remote access")
            .hint("build it with the feature `remote`, which is on by default")
    }
}
