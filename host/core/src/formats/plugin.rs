//! A plugin is what one library says of itself: its manifest, and the descriptions of its formats.

#[cfg(feature = "dynamic")]
pub(super) use self::dynamic::{Look, OpenPlugin, look, open};

use crate::formats::refusal::Refusal;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A plugin library that was looked at, and whether it could be used.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PluginLibrary {
    /// Its file.
    pub path: PathBuf,
    /// What its manifest says, or why it was refused.
    pub outcome: Result<PluginIdentity, Refusal>,
    /// The SHA-256 of the file, in hexadecimal; `None` if it was not read.
    pub sha256: Option<String>,
    /// Whether it comes from a folder of the program's own formats.
    pub built_in: bool,
    /// Whether it was opened now to see what it is; else a cache knew that.
    pub is_new: bool,
}

/// What a plugin library's manifest says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PluginIdentity {
    /// The package.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The SDK that it was built with.
    pub sdk_version: String,
    /// The ABI's revision that it was built for, major and minor.
    pub revision: (u32, u32),
}

#[cfg(feature = "dynamic")]
mod dynamic {
    use super::PluginIdentity;
    use crate::formats::library;
    use crate::formats::refusal::Refusal;
    use crate::formats::saved::SavedDescription;
    use serde::{Deserialize, Serialize};
    use std::path::Path;
    use tensorferry_sdk::mirror::RemoteFormat;
    use tensorferry_sdk::{Description, Format, Level};

    /// A plugin that may be called.
    pub(in crate::formats) struct OpenPlugin {
        pub(in crate::formats) identity: PluginIdentity,
        pub(in crate::formats) formats: Vec<RemoteFormat>,
        /// What it had to say to the user as it started.
        pub(in crate::formats) lines: Vec<(Level, String)>,
    }

    /// Opens a library, which runs its code, and asks each of its formats for its description.
    pub(in crate::formats) fn open(path: &Path) -> Result<OpenPlugin, Refusal> {
        let library = library::open(path)?;
        let manifest = &library.manifest;
        let identity = PluginIdentity {
            name: manifest.name(),
            version: manifest.version(),
            sdk_version: manifest.sdk_version(),
            revision: manifest.revision(),
        };
        let remote = |object| RemoteFormat::new(&identity.name, object);
        let formats = library.formats.into_iter().map(remote).collect::<Result<Vec<_>, _>>();
        let formats = formats.map_err(|error| Refusal::by_init(&error))?;
        if formats.len() > 1 {
            formats.iter().for_each(|format| format.faults().name_format(&format.describe().id));
        }
        Ok(OpenPlugin { identity, formats, lines: library.lines })
    }

    /// What is kept of a plugin that was looked at.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub(in crate::formats) struct Look {
        pub(in crate::formats) identity: PluginIdentity,
        /// `None`, if a description says something that cannot be kept.
        formats: Option<Vec<SavedDescription>>,
    }

    impl Look {
        /// The descriptions of its formats; `None`, if they cannot be known without opening it.
        pub(in crate::formats) fn descriptions(&self) -> Option<Vec<Description>> {
            Some(self.formats.as_ref()?.iter().map(SavedDescription::restore).collect())
        }
    }

    /// What is to be kept of an open plugin.
    pub(in crate::formats) fn look(plugin: &OpenPlugin) -> Look {
        let formats = plugin.formats.iter().map(|format| SavedDescription::of(&format.describe()));
        Look { identity: plugin.identity.clone(), formats: formats.collect() }
    }
}
