//! The reasons why a plugin library is refused.

use serde::{Deserialize, Serialize};
use tensorferry_abi::{MANIFEST_SYMBOL, REVISION};
#[cfg(feature = "dynamic")]
use tensorferry_sdk::Error;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Refusal {
    /// The system's loader could not open the library.
    CannotOpen(String),
    NotAPlugin,
    /// The manifest symbol of the library is not a valid manifest.
    BadManifest(String),
    /// The library was built for the preview ABI, before version 1.0.
    Preview,
    OtherRevision {
        /// The library's ABI revision: major and minor.
        found: (u32, u32),
    },
    /// The library was built with a different layout of an ABI type.
    OtherLayout(String),
    /// The library's init function failed.
    InitFailed(String),
    /// Users other than the current user and root may write to the library, to a folder above it,
    /// or to the target of a link.
    Untrusted(String),
    /// The program opens only listed libraries, and this SHA-256 is not on the list.
    NotListed(String),
    /// The library's bytes do not match the SHA-256 in the file next to it.
    Changed,
    /// The process that inspected the library crashed or hung. ferry does not open the library
    /// again until its file changes.
    Quarantined(String),
    /// The library's formats have changed since it was inspected.
    OtherFormats,
}

impl Refusal {
    /// Returns the refusal for an error that the library's init function returned.
    #[cfg(feature = "dynamic")]
    pub(super) fn by_init(error: &Error) -> Self {
        // A refusal already shows whose fault it is, so the error kind's label is removed.
        Self::InitFailed(error.to_string().replacen(error.kind().label(), "", 1))
    }

    /// Returns whether inspecting the same file again would give the same result. A result that
    /// depends on the environment may change, for example after a missing library or a failing
    /// `init`.
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
            Self::OtherLayout(why) => write!(f, "the layout of the ABI differs: {why}"),
            Self::InitFailed(why) => write!(f, "its init failed: {why}"),
            Self::Untrusted(why) => write!(f, "not trusted: {why}"),
            Self::NotListed(sha256) => write!(
                f,
                "its SHA-256 {sha256} is not on the list of trusted libraries: `ferry plugin trust` \
                 adds it"
            ),
            Self::Changed => f.write_str(
                "changed since it was installed: its SHA-256 does not match the .sha256 file next to it; install it \
                 again",
            ),
            Self::Quarantined(how) => write!(
                f,
                "quarantined: opening it {how}; it is skipped until it changes (`ferry plugin check` tries again)"
            ),
            Self::OtherFormats => f.write_str(
                "describes different formats than when it was inspected: `ferry plugin check` inspects it again",
            ),
        }
    }
}
