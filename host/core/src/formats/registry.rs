//! Plugins are libraries of formats, found in a few folders and loaded once.

pub use crate::formats::library::Refusal;
pub use crate::formats::search::{PluginFolder, folders};

use crate::context::suggest::suggest;
use std::path::{Path, PathBuf};
use tensorferry_sdk::mirror::RemoteFormat;
use tensorferry_sdk::{Description, Error, Format, Result, Side};

/// A format of a loaded plugin.
pub struct RegisteredFormat {
    /// How it is called.
    pub format: RemoteFormat,
    /// What it says of itself.
    pub description: Description,
    /// The plugin that it comes from: an index of [`Registry::found`].
    pub plugin: usize,
}

/// A library that was found, and what became of it.
pub struct Found {
    /// Its file.
    pub path: PathBuf,
    /// Package, version, SDK's version, ABI revision; or why it was refused.
    pub outcome: Result<Identity, Refusal>,
}

/// What a loaded library's manifest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The package.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The SDK that it was built with.
    pub sdk_version: String,
    /// The ABI's revision that it was built for.
    pub revision: (u32, u32),
}

/// All formats, and where they come from.
#[derive(Default)]
pub struct Registry {
    found: Vec<Found>,
    formats: Vec<RegisteredFormat>,
    notes: Vec<String>,
}

impl Registry {
    /// Loads every library in these folders; of two formats with one id, the one found first.
    #[must_use]
    pub fn load(folders: &[PluginFolder]) -> Self {
        let mut registry = Self::default();
        for folder in folders {
            match super::search::libraries(folder) {
                Ok(paths) => paths.iter().for_each(|path| registry.add(path)),
                Err(error) => registry.notes.push(error.to_string()),
            }
        }
        registry
    }

    /// Loads one library.
    #[must_use]
    pub fn load_file(path: &Path) -> Self {
        let mut registry = Self::default();
        registry.add(path);
        registry
    }

    fn add(&mut self, path: &Path) {
        // One library in two folders (a link, the build's own beside `plugins/`) is one plugin.
        let canonical = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if self.found.iter().any(|found| found.path == canonical) {
            return;
        }
        let plugin = self.found.len();
        let outcome = super::library::open(&canonical).and_then(|library| {
            let name = library.manifest.name();
            for object in library.formats {
                let format = RemoteFormat::new(&name, object)
                    .map_err(|error| Refusal::InitFailed(error.message().to_owned()))?;
                let description = format.describe();
                if let Some(known) = self.formats.iter().find(|f| f.description.id == description.id) {
                    self.notes.push(format!(
                        "{}: format {} is already there from {}",
                        canonical.display(),
                        description.id,
                        self.found[known.plugin].path.display()
                    ));
                } else {
                    self.formats.push(RegisteredFormat { format, description, plugin });
                }
            }
            Ok(Identity {
                name,
                version: library.manifest.version(),
                sdk_version: library.manifest.sdk_version(),
                revision: library.manifest.revision(),
            })
        });
        if outcome.is_err() {
            self.formats.retain(|format| format.plugin != plugin);
        }
        self.found.push(Found { path: canonical, outcome });
    }

    /// Every library that was looked at, in order.
    #[must_use]
    pub fn found(&self) -> &[Found] {
        &self.found
    }

    /// Every format that can be used.
    #[must_use]
    pub fn formats(&self) -> &[RegisteredFormat] {
        &self.formats
    }

    /// What a person should know of the search: folders that were passed over, ids taken twice.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The format of this id, if it can do what is asked of it.
    ///
    /// # Errors
    /// I/o, if there is no plugin at all; usage, naming the ids that there are.
    pub fn format(&self, id: &str, side: Side) -> Result<&RegisteredFormat> {
        self.check_any()?;
        let format = self.formats.iter().find(|format| format.description.id == id);
        let able = |f: &&RegisteredFormat| f.description.has(side);
        format.filter(able).ok_or_else(|| {
            let ids: Vec<&str> =
                self.formats.iter().filter(able).map(|f| f.description.id.as_str()).collect();
            let verb = if side == Side::Writer { "written" } else { "read" };
            let problem = match format {
                Some(_) => format!("format {id} cannot be {verb}"),
                None => match suggest(id, ids.iter().copied()) {
                    Some(near) => format!("no format {id:?}; did you mean {near:?}?"),
                    None => format!("no format {id:?}"),
                },
            };
            Error::usage(problem).expected(format!("one of {}", ids.join(", ")))
        })
    }

    /// Whether there is any format.
    ///
    /// # Errors
    /// I/o (the environment's fault), telling where plugins were looked for and what was refused.
    pub fn check_any(&self) -> Result<()> {
        if !self.formats.is_empty() {
            return Ok(());
        }
        let refused: Vec<String> = self
            .found
            .iter()
            .filter_map(|f| f.outcome.as_ref().err().map(|why| format!("{}: {why}", f.path.display())))
            .chain(self.notes.iter().cloned())
            .collect();
        let why = if refused.is_empty() { String::new() } else { format!(": {}", refused.join("; ")) };
        Err(Error::io(format!("no format plugin was found{why}; see `ferry plugin list`")))
    }
}
