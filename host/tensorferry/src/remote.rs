//! Inputs and outputs that are URLs: of HTTP servers, object stores and the Hugging Face Hub.
//!
//! With the feature `remote`, a registry opens them by itself; [`connect`] gives it settings of your own. Without it, a
//! session opens what its [`Session::remote`] opens.

#[cfg(feature = "remote")]
use std::path::PathBuf;
use std::sync::Arc;
#[cfg(feature = "remote")]
use std::sync::atomic::{AtomicBool, Ordering};
pub use tensorferry_core::context::remote::Remote;
use tensorferry_core::context::session::Session;
use tensorferry_sdk::Result;

/// Settings for every program that is started from here on, each `KEY=VALUE` on a line of its own. They come before those
/// of a command line, which everybody on the machine can read, and behind those of the user's file.
const VARIABLE: &str = "FERRY_STORE";

/// The user's file, below the folder of settings: a setting a line, `#` before what is none.
#[cfg(feature = "remote")]
const FILE: &str = "ferry/stores";

/// What opens URLs for a session by these settings, each `KEY=VALUE`, those of the environment and the user's file; what is
/// fetched ahead takes up to half of the session's memory. It ends with the session.
///
/// # Errors
/// Usage, for a setting that there is not; i/o, for a file of settings that cannot be read.
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

/// Has a session that opens no URLs yet, and that nobody else has, open those of servers, stores and the Hub.
#[cfg_attr(not(feature = "remote"), expect(unused_mut, reason = "it stays as it is"))]
pub(crate) fn opening_urls(mut session: Arc<Session>) -> Arc<Session> {
    #[cfg(feature = "remote")]
    if let Some(session) = Arc::get_mut(&mut session).filter(|session| session.remote.is_none()) {
        session.remote = Some(Arc::new(later::Later::new(session)));
    }
    session
}

/// What says of every URL that the program was built without stores.
///
/// # Errors
/// Usage, where there are settings for them.
#[cfg(not(feature = "remote"))]
pub fn connect(settings: &[String], _: &Session) -> Result<Arc<dyn Remote>> {
    match settings {
        [] => Ok(Arc::new(without::NoStores)),
        _ => Err(without::error()),
    }
}

#[cfg(feature = "remote")]
fn of_file() -> Result<Vec<String>> {
    let folder =
        |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    let folder = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
    let path = folder.map(|folder| folder.join(FILE));
    // A home that this user may not enter, of a service say, holds no settings.
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

/// The variable by which a process that is started is told these settings, beside those that this one was told so.
#[must_use]
pub fn variable(settings: &[String]) -> (&'static str, String) {
    (VARIABLE, with_variable(settings).join("\n"))
}

/// A program that opens no URL reads no settings.
#[cfg(feature = "remote")]
mod later {
    use super::*;
    use std::sync::OnceLock;
    use tensorferry_core::context::remote::RemotePlace;

    /// Connects when the first URL is opened.
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

    /// Opens nothing, and says how to get a program that does.
    #[derive(Debug)]
    pub(super) struct NoStores;

    impl Remote for NoStores {
        fn place(&self, url: &str) -> Result<Option<(Arc<dyn RemotePlace>, String)>> {
            Err(error().file(shown(Path::new(url))))
        }
    }

    pub(super) fn error() -> Error {
        Error::usage("this ferry was built without stores")
            .expected("one that was built with the feature `remote`, which is on by default")
    }
}
