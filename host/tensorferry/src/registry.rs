//! A registry is the formats that a program can use, and the session that their use is part of.

use crate::remote::opening_urls;
use crate::{RegisteredFormat, Session};
use std::sync::Arc;
use tensorferry_core::formats::plugin::{PluginIdentity, PluginLibrary};
use tensorferry_core::formats::registry::Formats;
use tensorferry_sdk::{Format, Result, Side};

/// The formats that a program can use: those that it links, and those of the plugin libraries that it asked to load. Nothing
/// is searched for or opened unless the program says so. Clones share the libraries.
#[derive(Debug, Clone)]
pub struct Registry {
    formats: Formats,
    session: Arc<Session>,
}

impl Registry {
    /// A registry without formats, with a session of its own.
    #[must_use]
    pub fn new() -> Self {
        Self { formats: Formats::new(), session: opening_urls(Arc::default()) }
    }

    /// Adds a format that is linked into the program. Of two formats with one id, the first one stays.
    #[must_use]
    pub fn with(mut self, format: Box<dyn Format>) -> Self {
        self.formats = self.formats.with(format);
        self
    }

    /// Adds several, as the function `formats()` of a format's crate gives them.
    #[must_use]
    pub fn with_all(self, formats: impl IntoIterator<Item = Box<dyn Format>>) -> Self {
        formats.into_iter().fold(self, Self::with)
    }

    /// The formats of the libraries that a search finds. A library that cannot be used does not end the search:
    /// [`libraries`](Self::libraries) says why, [`notes`](Self::notes) which folders were passed over.
    ///
    /// ```
    /// use tensorferry::{PluginFolder, PluginSearch, Registry, scan_plugins};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut arguments = std::env::args_os().skip(1);
    /// if arguments.next().is_some_and(|first| first == "scan-plugins") {
    ///     return Ok(scan_plugins(arguments)?);
    /// }
    /// # let caches = tempfile::tempdir()?;
    /// # let caches = caches.path();
    /// let search = PluginSearch::new([PluginFolder::new("plugins").trusted()])
    ///     .cache(caches.join("plugins"))
    ///     .scan_with(std::env::current_exe()?, ["scan-plugins"]);
    /// let registry = Registry::search(&search);
    /// # assert!(registry.libraries().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "dynamic")]
    #[must_use]
    pub fn search(search: &crate::PluginSearch) -> Self {
        Self { formats: search.load(), ..Self::new() }
    }

    /// Loads every plugin library of these folders, as [`search`](Self::search) does for more: of two formats with one id, the
    /// first one stays. Opening a library runs its code.
    #[cfg(feature = "dynamic")]
    #[must_use]
    pub fn load<F: Into<crate::PluginFolder>>(folders: impl IntoIterator<Item = F>) -> Self {
        Self::search(&crate::PluginSearch::new(folders))
    }

    /// Loads one plugin library, wherever it is.
    #[cfg(feature = "dynamic")]
    #[must_use]
    pub fn load_file(path: &std::path::Path) -> Self {
        Self::search(&crate::PluginSearch::default().file(path))
    }

    /// The same registry with other threads, memory, limits and cancel token. With the feature `remote`, a session that
    /// opens no URLs by itself opens those of HTTP servers, object stores and the Hugging Face Hub.
    #[must_use]
    pub fn with_session(self, session: impl Into<Arc<Session>>) -> Self {
        Self { session: opening_urls(session.into()), ..self }
    }

    /// The threads, memory, limits and cancel token of everything that is done through this registry.
    #[must_use]
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Every plugin library that was looked at, in order.
    #[must_use]
    pub fn libraries(&self) -> &[PluginLibrary] {
        self.formats.libraries()
    }

    /// The manifest of the library that a format was loaded from.
    #[must_use]
    pub fn plugin_of(&self, format: &RegisteredFormat) -> Option<&PluginIdentity> {
        self.formats.plugin_of(format)
    }

    /// Every format that can be used.
    #[must_use]
    pub fn formats(&self) -> &[RegisteredFormat] {
        self.formats.formats()
    }

    /// What a person should know of the search: folders that were passed over, ids taken twice.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        self.formats.notes()
    }

    /// Checks that there is any format.
    ///
    /// # Errors
    /// I/o (the environment's fault), which names the folders that were searched and the libraries that were refused.
    pub fn check_any(&self) -> Result<()> {
        self.formats.check_any()
    }

    /// The format of this id, if it can do what is asked of it.
    ///
    /// # Errors
    /// I/o, if there is no format at all; usage, naming the ids that there are.
    pub fn format(&self, id: &str, side: Side) -> Result<&RegisteredFormat> {
        self.formats.format(id, side)
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

/// For programs that use the layers below this crate too, which promise nothing.
impl AsRef<Formats> for Registry {
    fn as_ref(&self) -> &Formats {
        &self.formats
    }
}
