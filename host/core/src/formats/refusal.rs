//! The reasons for which a plugin library is refused.

use serde::{Deserialize, Serialize};
use tensorferry_abi::{MANIFEST_SYMBOL, REVISION};
#[cfg(feature = "dynamic")]
use tensorferry_sdk::Error;

/// Why a library was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Refusal {
    /// The system's loader could not open it.
    CannotOpen(String),
    /// It has no manifest.
    NotAPlugin,
    /// What it has in its manifest's place is none.
    BadManifest(String),
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
    /// Others than the user and root may write to it, to a folder above it, or to where a link leads.
    Untrusted(String),
    /// The program opens listed libraries only, and this one's SHA-256 is not on the list.
    NotListed(String),
    /// Its bytes are not those of the SHA-256 in the file beside it.
    Changed,
    /// The process that looked at it crashed or did not come back. It is not opened again until it changes.
    Quarantined(String),
    /// It describes other formats than it did when it was looked at.
    OtherFormats,
}

impl Refusal {
    /// The library said no with this error.
    #[cfg(feature = "dynamic")]
    pub(super) fn by_init(error: &Error) -> Self {
        Self::InitFailed(error.message().to_owned())
    }

    /// Whether a look at the same file would end in the same way: what depends on the environment, as whether
    /// another library is there or `init` succeeds, may not.
    #[cfg(feature = "dynamic")]
    pub(super) fn is_lasting(&self) -> bool {
        matches!(
            self,
            Self::NotAPlugin
                | Self::BadManifest(_)
                | Self::Preview
                | Self::OtherRevision { .. }
                | Self::OtherLayout(_)
                | Self::Quarantined(_)
        )
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CannotOpen(why) => write!(f, "cannot be opened: {why}"),
            Self::NotAPlugin => write!(f, "not a plugin: it exports no symbol {MANIFEST_SYMBOL}"),
            Self::BadManifest(why) => write!(f, "not a plugin: its {MANIFEST_SYMBOL} {why}"),
            Self::Preview => write!(
                f,
                "built for a preview of the ABI, before 1.0: rebuild the plugin with the SDK of this ferry"
            ),
            Self::OtherRevision { found: (major, minor) } if *major == REVISION.0 => write!(
                f,
                "needs ABI revision {major}.{minor}; this ferry has {}.{}: use a newer ferry, or build the plugin with \
                 the SDK of this one",
                REVISION.0, REVISION.1
            ),
            Self::OtherRevision { found: (major, minor) } => write!(
                f,
                "built for ABI revision {major}.{minor}; this ferry has {}.{}: rebuild the plugin with the SDK of \
                 this ferry",
                REVISION.0, REVISION.1
            ),
            Self::OtherLayout(why) => write!(f, "the layout of the boundary differs: {why}"),
            Self::InitFailed(why) => write!(f, "its init failed: {why}"),
            Self::Untrusted(why) => write!(f, "not trusted: {why}"),
            Self::NotListed(sha256) => write!(
                f,
                "its SHA-256 {sha256} is not on the list of libraries that may be opened: `ferry plugin trust` \
                 adds it"
            ),
            Self::Changed => f.write_str(
                "changed since it was installed: its SHA-256 is not that of the file .sha256 beside it; install it \
                 again",
            ),
            Self::Quarantined(how) => write!(
                f,
                "quarantined: opening it {how}; it is left alone until it changes (`ferry plugin check` tries again)"
            ),
            Self::OtherFormats => f.write_str(
                "describes other formats than when it was looked at: `ferry plugin check` looks again",
            ),
        }
    }
}
