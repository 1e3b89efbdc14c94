//! A plugin: a library's manifest and the descriptions of its formats.

#[cfg(feature = "dynamic")]
pub(super) use self::dynamic::{Inspection, OpenPlugin, inspect, open};

use crate::formats::refusal::Refusal;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A plugin library that was inspected, and whether it can be used.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PluginLibrary {
    pub path: PathBuf,
    /// The library's manifest, or the reason why the library was refused.
    pub outcome: Result<PluginIdentity, Refusal>,
    /// The SHA-256 of the file in hexadecimal; `None` if the file was not read.
    pub sha256: Option<String>,
    /// Whether the library comes from a folder of the program's own formats.
    pub built_in: bool,
    /// Whether this inspection opened the library. Otherwise, the result is from the cache.
    pub is_new: bool,
}

/// The contents of a plugin library's manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PluginIdentity {
    /// The name of the package that contains the plugin.
    pub name: String,
    pub version: String,
    /// The version of the SDK that the library was built with.
    pub sdk_version: String,
    /// The ABI revision that the library was built for: major and minor.
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

    /// A plugin whose functions can be called.
    pub(in crate::formats) struct OpenPlugin {
        pub(in crate::formats) identity: PluginIdentity,
        pub(in crate::formats) formats: Vec<RemoteFormat>,
        /// Messages for the user that the library produced when it was opened.
        pub(in crate::formats) lines: Vec<(Level, String)>,
    }

    /// Opens a library, which runs its code, and queries the description of each format.
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

    /// The part of an inspected plugin that is cached.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    pub(in crate::formats) struct Inspection {
        pub(in crate::formats) identity: PluginIdentity,
        /// The descriptions of the formats; `None` if one of them cannot be saved completely.
        formats: Option<Vec<SavedDescription>>,
    }

    impl Inspection {
        /// Returns the descriptions of the plugin's formats, or `None` if the plugin must be opened
        /// to get the descriptions.
        pub(in crate::formats) fn descriptions(&self) -> Option<Vec<Description>> {
            Some(self.formats.as_ref()?.iter().map(SavedDescription::restore).collect())
        }
    }

    /// Returns the part of an open plugin that the cache stores.
    pub(in crate::formats) fn inspect(plugin: &OpenPlugin) -> Inspection {
        let formats = plugin.formats.iter().map(|format| SavedDescription::of(&format.describe()));
        Inspection { identity: plugin.identity.clone(), formats: formats.collect() }
    }
}
