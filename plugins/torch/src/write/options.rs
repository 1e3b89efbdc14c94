//! Options: what a user may tell the writer.

use tensorferry_sdk::{OptionKind, OptionSpec, Options};

const FORMAT: &str = "format";

/// The container of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileFormat {
    /// A zip archive.
    Zip,
    /// The stream of torch before 1.6.
    Legacy,
}

/// What the format declares.
pub(crate) fn declared() -> Vec<OptionSpec> {
    let formats = ["zip", "legacy"].map(str::to_owned).to_vec();
    vec![OptionSpec::writer(
        FORMAT,
        OptionKind::Choice(formats),
        Some("zip"),
        "the container: zip can be memory-mapped; legacy is what torch wrote before 1.6, and still reads",
    )]
}

/// What the writer was told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteOptions {
    /// The container.
    pub(crate) format: FileFormat,
}

impl WriteOptions {
    /// Reads the checked options.
    pub(crate) fn new(options: &Options) -> Self {
        let legacy = options.text(FORMAT) == Some("legacy");
        Self { format: if legacy { FileFormat::Legacy } else { FileFormat::Zip } }
    }
}
