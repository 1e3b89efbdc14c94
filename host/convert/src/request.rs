//! The request for a conversion. The library, manifests, worker processes and Python all describe a
//! conversion with this type.
//!
//! Requests are serializable. A path that is not UTF-8 cannot be serialized.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tensorferry_core::context::session::Session;
use tensorferry_core::read::file_group::FileGroup;
use tensorferry_core::read::identity::FileIdentity;
use tensorferry_core::read::losses::LossPolicy;
use tensorferry_core::read::part::Part;
use tensorferry_core::read::source::FileSource;
use tensorferry_publish::commit::CommitOptions;
use tensorferry_sdk::{Entry, Result, Source};
use tensorferry_tensors::content::Algorithm;

/// A conversion: the input, the steps, the output, and the losses that are allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Request {
    pub input: InputRequest,
    /// The values of `--step`, in order.
    pub steps: Vec<String>,
    pub output: OutputRequest,
    pub losses: LossPolicy,
    /// Whether `--dry-run` was passed.
    pub dry_run: bool,
}

/// The input of a conversion.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InputRequest {
    /// The path or URL of the input.
    pub path: PathBuf,
    /// The value of `--from`.
    pub format: Option<String>,
    /// The values of `-i`.
    pub options: Vec<(String, String)>,
    /// The value of `--part`.
    pub part: Part,
    /// The files of a dataset that are converted together. `path` is the first of these files.
    pub file_group: Option<FileGroup>,
    /// `--companions`: globs that select which files next to the weights are copied. If `None`, all
    /// files are copied for an input folder, and no other files for an input file.
    pub companions: Option<Vec<String>>,
    /// Whether `--allow-empty` was passed, so that an input without tensors or records is
    /// converted.
    pub allow_empty: bool,
}

/// The output of a conversion.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OutputRequest {
    /// The path or URL of the output. The path ends in `/` if the output is a folder.
    pub path: PathBuf,
    /// The value of `--to`.
    pub format: Option<String>,
    /// The values of `-o`.
    pub options: Vec<(String, String)>,
    /// Whether `--verify` was passed.
    pub verify: bool,
    /// The value of `--receipt`, which is the algorithm for the digests of files; `None` for no
    /// receipt.
    pub receipt: Option<Algorithm>,
    /// The options `--force` and `--sync`.
    pub commit: CommitOptions,
    /// Files that earlier runs wrote for this output, with their identities when they were written.
    /// The commit removes those files that the new output does not replace.
    pub earlier: Vec<(PathBuf, FileIdentity)>,
}

impl InputRequest {
    /// Returns whether the input may be empty. A single file of a dataset may always be empty.
    pub fn may_be_empty(&self) -> bool {
        self.allow_empty || self.file_group.is_some()
    }

    pub fn open(&self, session: &Session) -> Result<FileSource> {
        let open = || FileSource::open(&self.path, session);
        self.file_group.as_ref().map_or_else(open, |group| group.source(session))
    }

    /// Returns the entry that decides whether the output is a folder. The entry is used if the
    /// output's name does not show whether the output is a folder. A dataset counts as a file,
    /// because the output template decides.
    #[must_use]
    pub fn entry<'a>(&self, source: &'a FileSource) -> &'a Entry {
        static FILE: Entry = Entry::File(String::new());
        if self.file_group.is_some() { &FILE } else { source.entry() }
    }
}
