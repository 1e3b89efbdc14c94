//! The reasons for which a plugin library is refused.

use tensorferry_abi::{MANIFEST_SYMBOL, REVISION};

/// Why a library was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The system's loader could not open it.
    CannotOpen(String),
    /// It has no manifest.
    NotAPlugin,
    /// It was built for the boundary as it was before 1.0.
    Preview,
    /// It was built for another revision of the ABI.
    OtherRevision {
        /// The library's revision, major and minor.
        found: (u32, u32),
    },
    /// A type of the boundary lies otherwise in it.
    OtherLayout(String),
    /// It said no when it was asked for its formats.
    InitFailed(String),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CannotOpen(why) => write!(f, "cannot be opened: {why}"),
            Self::NotAPlugin => write!(f, "not a plugin: it has no symbol {MANIFEST_SYMBOL}"),
            Self::Preview => write!(
                f,
                "built for a preview of the ABI, before 1.0: rebuild the plugin with the SDK of this ferry"
            ),
            Self::OtherRevision { found: (major, minor) } => write!(
                f,
                "built for ABI revision {major}.{minor}; this ferry has {}.{}: rebuild the plugin with the SDK of \
                 this ferry",
                REVISION.0, REVISION.1
            ),
            Self::OtherLayout(why) => write!(f, "the layout of the boundary differs: {why}"),
            Self::InitFailed(why) => write!(f, "its init failed: {why}"),
        }
    }
}
