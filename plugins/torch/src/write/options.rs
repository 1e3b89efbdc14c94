//! Options: what a user may tell the writer.

use tensorferry_sdk::{OptionKind, OptionSpec, Options};

const FORMAT: &str = "format";
const MAX_SHARD_SIZE: &str = "max_shard_size";

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
    vec![
        OptionSpec::writer(
            FORMAT,
            OptionKind::Choice(formats),
            Some("zip"),
            "the container: zip can be memory-mapped; legacy is what torch wrote before 1.6, and still reads",
        ),
        OptionSpec::writer(
            MAX_SHARD_SIZE,
            OptionKind::Size,
            None,
            "split into files of at most this many bytes of tensors, with an index, named as on the Hugging Face Hub \
             (5GB is usual)",
        ),
    ]
}

/// What the writer was told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WriteOptions {
    /// The container.
    pub(crate) format: FileFormat,
    /// Bytes of tensors in one file; `None` for one file.
    pub(crate) max_shard_size: Option<u64>,
}

impl WriteOptions {
    /// Reads the checked options.
    pub(crate) fn new(options: &Options) -> Self {
        let legacy = options.text(FORMAT) == Some("legacy");
        let format = if legacy { FileFormat::Legacy } else { FileFormat::Zip };
        Self { format, max_shard_size: options.size(MAX_SHARD_SIZE) }
    }
}
