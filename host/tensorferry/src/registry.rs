//! The formats that a program can use, and the session in which it uses them.

use crate::remote::opening_urls;
use crate::{RegisteredFormat, Session};
use std::sync::Arc;
use tensorferry_core::formats::plugin::{PluginIdentity, PluginLibrary};
use tensorferry_core::formats::registry::Formats;
use tensorferry_sdk::{Format, Result, Side};

/// The formats that a program can use: formats linked into the program, and formats from the plugin
/// libraries that it loads. A registry searches for and opens libraries only if the program
/// requests it. Clones share the loaded libraries.
///
/// ```
/// use tensorferry::Registry;
///
/// let registry = Registry::new().with_all(tensorferry_sdk::memory::formats());
/// assert!(!registry.formats().is_empty());
/// ```
#[derive(Debug, Clone)]
pub struct Registry {
    formats: Formats,
    session: Arc<Session>,
}

impl Registry {
    /// Creates a registry without formats and with a new session.
    #[must_use]
    pub fn new() -> Self {
        Self { formats: Formats::new(), session: opening_urls(Arc::default()) }
    }

    /// Adds a format that is linked into the program. If two formats have the same ID, the registry
    /// keeps the first format.
    #[must_use]
    pub fn with(mut self, format: Box<dyn Format>) -> Self {
        self.formats = self.formats.with(format);
        self
    }

    /// Adds several formats, for example the result of `formats()` in a format's crate.
    #[must_use]
    pub fn with_all(self, formats: impl IntoIterator<Item = Box<dyn Format>>) -> Self {
        formats.into_iter().fold(self, Self::with)
    }

    /// Loads the formats from all libraries that a search finds. A library that cannot be used does
    /// not end the search: [`libraries`](Self::libraries) returns the reason, and
    /// [`notes`](Self::notes) returns the folders that were skipped.
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

    /// Loads every plugin library in these folders. [`search`](Self::search) has more options. If
    /// two formats have the same ID, the registry keeps the first format. Opening a library runs
    /// its code.
    #[cfg(feature = "dynamic")]
    #[must_use]
    pub fn load<F: Into<crate::PluginFolder>>(folders: impl IntoIterator<Item = F>) -> Self {
        Self::search(&crate::PluginSearch::new(folders))
    }

    /// Loads one plugin library.
    #[cfg(feature = "dynamic")]
    #[must_use]
    pub fn load_file(path: &std::path::Path) -> Self {
        Self::search(&crate::PluginSearch::default().file(path))
    }

    /// Returns this registry with a different session, which owns threads, memory, limits and a
    /// cancel token. With the feature `remote`, a session whose `remote` is not set gets a `remote`
    /// for HTTP servers, object stores and the Hugging Face Hub.
    #[must_use]
    pub fn with_session(self, session: impl Into<Arc<Session>>) -> Self {
        Self { session: opening_urls(session.into()), ..self }
    }

    /// Returns the session, which owns the threads, memory, limits and cancel token for all
    /// operations of this registry.
    #[must_use]
    pub fn session(&self) -> &Arc<Session> {
        &self.session
    }

    /// Returns every plugin library that was examined, in the order of examination.
    #[must_use]
    pub fn libraries(&self) -> &[PluginLibrary] {
        self.formats.libraries()
    }

    /// Returns the manifest of the plugin library that a format was loaded from.
    #[must_use]
    pub fn plugin_of(&self, format: &RegisteredFormat) -> Option<&PluginIdentity> {
        self.formats.plugin_of(format)
    }

    /// Returns every available format.
    #[must_use]
    pub fn formats(&self) -> &[RegisteredFormat] {
        self.formats.formats()
    }

    /// Returns notes for users from the search for libraries, such as skipped folders and duplicate
    /// format IDs.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        self.formats.notes()
    }

    /// Checks that at least one format is available.
    ///
    /// # Errors
    /// Returns an I/O error if no format is available. The error lists the searched folders and the
    /// rejected libraries.
    pub fn check_any(&self) -> Result<()> {
        self.formats.check_any()
    }

    /// Returns the format with this ID, if the format supports `side` (reading or writing).
    ///
    /// # Errors
    /// Returns an I/O error if the registry has no formats. Returns a usage error that lists the
    /// known IDs if `id` is unknown.
    pub fn format(&self, id: &str, side: Side) -> Result<&RegisteredFormat> {
        self.formats.format(id, side)
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the formats for programs that also use the lower-level crates, which have no stability
/// guarantee.
impl AsRef<Formats> for Registry {
    fn as_ref(&self) -> &Formats {
        &self.formats
    }
}
