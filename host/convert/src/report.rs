//! A report is what was done, how fast, and everything that could not be carried.

use crate::request::Request;
use crate::write::target::OutputTarget;
use std::path::PathBuf;
use std::time::Instant;
use tensorferry_core::context::loss::LossRecord;
use tensorferry_core::context::session::Session;
use tensorferry_core::formats::used::UsedFormat;
use tensorferry_core::read::account::Account;
use tensorferry_core::read::folder::shown;
use tensorferry_publish::commit::{Committed, Recovered};
use tensorferry_sdk::{Loss, Target};

/// What a conversion came to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    /// INPUT.
    pub input: PathBuf,
    /// OUTPUT.
    pub output: PathBuf,
    /// The formats that the input was read as.
    pub readers: Vec<UsedFormat>,
    /// How many files of the input were read.
    pub files_read: usize,
    /// The target's format.
    pub format: String,
    /// Tensors in the output.
    pub tensors: u64,
    /// Whether the output is one of records.
    pub holds_records: bool,
    /// Records in the output, where it is one of records and they have been counted.
    pub records: Option<u64>,
    /// Bytes of the output's files.
    pub bytes: u64,
    /// From the start to the commit.
    pub seconds: f64,
    /// Tensors whose content was compared, if that was asked for.
    pub verified: Option<u64>,
    /// What the output does not have.
    pub losses: Vec<Loss>,
    /// What became of each entry of the input, where that is more than a file.
    pub account: Option<Account>,
    /// The files and their lengths; of a dry run, those that would be.
    pub files: Vec<(PathBuf, u64)>,
    /// Where the receipt lies, if one was asked for.
    pub receipt: Option<PathBuf>,
    /// What a person should know beside that.
    pub notes: Vec<String>,
    /// Whether nothing was written.
    pub dry_run: bool,
}

impl Report {
    /// A report of a conversion that is about to begin.
    #[must_use]
    pub fn new(request: &Request, target: &OutputTarget<'_>, losses: Vec<Loss>) -> Self {
        Self {
            input: request.input.path.clone(),
            output: target.output.clone(),
            readers: Vec::new(),
            files_read: 0,
            format: target.format.description.id.clone(),
            tensors: 0,
            holds_records: false,
            records: None,
            bytes: 0,
            seconds: 0.0,
            verified: None,
            losses,
            account: None,
            files: Vec::new(),
            receipt: None,
            notes: Vec::new(),
            dry_run: request.dry_run,
        }
    }

    /// Notes what earlier runs had left beside the output, and what became of it.
    pub fn recovered(&mut self, recovered: Recovered) {
        let finished =
            recovered.finished.iter().map(|path| format!("finished an earlier run's {}", path.display()));
        self.notes.extend(finished.chain(recovered.notes));
        if recovered.removed > 0 {
            let runs = match recovered.removed {
                1 => "an earlier run".to_owned(),
                count => format!("{count} earlier runs"),
            };
            self.notes.push(format!("removed what {runs} had left unfinished"));
        }
    }

    /// The end of a dry run: `files` are the names of those that would be written, and their lengths, where
    /// these are known.
    #[must_use]
    pub fn planned(
        mut self,
        files: Vec<(String, u64)>,
        target: &OutputTarget<'_>,
        started: Instant,
        session: &Session,
    ) -> Self {
        let is_folder = target.target == Target::Folder;
        let folder = if is_folder { self.output.clone() } else { parent(&self.output) };
        self.files = files.into_iter().map(|(name, len)| (folder.join(name), len)).collect();
        self.end(started, session)
    }

    /// The end of a conversion: `lens` are the lengths of the committed files, by their place; a receipt
    /// comes after them.
    #[must_use]
    pub fn done(
        mut self,
        lens: &[u64],
        mut committed: Committed,
        started: Instant,
        session: &Session,
    ) -> Self {
        self.receipt = committed.files.drain(lens.len()..).next();
        self.files = committed.files.into_iter().zip(lens.iter().copied()).collect();
        self.bytes = lens.iter().sum();
        self.notes.extend(committed.notes);
        self.end(started, session)
    }

    fn end(mut self, started: Instant, session: &Session) -> Self {
        self.notes.extend(session.take_notes());
        self.seconds = started.elapsed().as_secs_f64();
        self
    }

    /// The document of `--json`.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "input": shown(&self.input),
            "output": shown(&self.output),
            "files_read": self.files_read,
            "format": self.format,
            "tensors": self.tensors,
            "records": self.records,
            "bytes": self.bytes,
            "seconds": self.seconds,
            "verified": self.verified.is_some(),
            "losses": self.losses.iter().map(LossRecord::of).collect::<Vec<_>>(),
            "account": self.account.as_ref().map(Account::record),
            "files": self.files.iter().map(|(path, _)| path).collect::<Vec<_>>(),
            "receipt": self.receipt,
            "notes": self.notes,
            "dry_run": self.dry_run,
        })
    }
}

fn parent(path: &std::path::Path) -> PathBuf {
    path.parent().map(PathBuf::from).unwrap_or_default()
}
