//! What a conversion is asked to do, in the parts that its stages take.

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

/// What a conversion is asked to do.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// What is read, and how.
    pub input: InputRequest,
    /// `--step`, in order.
    pub steps: Vec<String>,
    /// What is written, and how.
    pub output: OutputRequest,
    /// Which losses end it.
    pub losses: LossPolicy,
    /// `--dry-run`.
    pub dry_run: bool,
}

/// What is read, and how.
#[derive(Debug, Clone, Default)]
pub struct InputRequest {
    /// INPUT.
    pub path: PathBuf,
    /// `--from`.
    pub format: Option<String>,
    /// `-i`.
    pub options: Vec<(String, String)>,
    /// `--part`.
    pub part: Part,
    /// Of a data set, the files that are the input.
    pub file_group: Option<FileGroup>,
    /// Names beside an input file that go along with it: globs.
    pub carry: Vec<String>,
    /// `--allow-empty`: an input without a tensor or a record is converted too.
    pub allow_empty: bool,
}

/// What is written, and how.
#[derive(Debug, Clone, Default)]
pub struct OutputRequest {
    /// OUTPUT.
    pub path: PathBuf,
    /// `--to`.
    pub format: Option<String>,
    /// `-o`.
    pub options: Vec<(String, String)>,
    /// `--verify`.
    pub verify: bool,
    /// `--receipt`: by what its files are hashed; none for no receipt.
    pub receipt: Option<Algorithm>,
    /// `--force`, `--sync`.
    pub commit: CommitOptions,
    /// Files that earlier runs have written for this output, and what they were then: those that the new one does not bring
    /// go with the commit.
    pub earlier: Vec<(PathBuf, FileIdentity)>,
}

impl InputRequest {
    /// Whether it may hold nothing; of a data set, a file may.
    pub fn may_be_empty(&self) -> bool {
        self.allow_empty || self.file_group.is_some()
    }

    /// Opens the input's files.
    ///
    /// # Errors
    /// Usage, if there is nothing of that name; i/o.
    pub fn open(&self, session: &Session) -> Result<FileSource> {
        let open = || FileSource::open(&self.path, session);
        self.file_group.as_ref().map_or_else(open, |group| group.source(session))
    }

    /// What the output goes by where its name leaves open whether it is a folder. A data set's template says
    /// it, however many files a group has.
    #[must_use]
    pub fn entry<'a>(&self, source: &'a FileSource) -> &'a Entry {
        static FILE: Entry = Entry::File(String::new());
        if self.file_group.is_some() { &FILE } else { source.entry() }
    }
}
