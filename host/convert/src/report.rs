//! The report of a conversion: the output's files, the time, and all losses.

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

#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Report {
    pub input: PathBuf,
    pub output: PathBuf,
    pub readers: Vec<UsedFormat>,
    pub files_read: usize,
    pub format: String,
    /// Number of tensors in the output.
    pub tensors: u64,
    pub holds_records: bool,
    /// Number of records in the output, if the output contains records and the records have been
    /// counted.
    pub records: Option<u64>,
    pub bytes: u64,
    /// The time from the start to the commit, in seconds.
    pub seconds: f64,
    /// Number of tensors or records that `--verify` compared.
    pub verified: Option<u64>,
    /// Losses of the conversion.
    pub losses: Vec<Loss>,
    /// The outcome for each entry of the input, if the input is not a single file.
    pub account: Option<Account>,
    /// The output's files and their lengths in bytes. For a dry run, the files that would be
    /// written.
    pub files: Vec<(PathBuf, u64)>,
    /// The path of the receipt, if one was requested.
    pub receipt: Option<PathBuf>,
    pub notes: Vec<String>,
    pub dry_run: bool,
}

impl Report {
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

    /// Adds the stages of earlier runs that were found next to the output, and how they were
    /// handled.
    pub fn recovered(&mut self, recovered: Recovered) {
        let finished = recovered
            .finished
            .iter()
            .map(|path| format!("finished the output {} of an interrupted run", path.display()));
        self.notes.extend(finished.chain(recovered.notes));
        if recovered.removed > 0 {
            let runs = match recovered.removed {
                1 => "an earlier run".to_owned(),
                count => format!("{count} earlier runs"),
            };
            self.notes.push(format!("removed unfinished files of {runs}"));
        }
    }

    /// Completes the report of a dry run. `files` are the names of the files that would be written,
    /// with their lengths if these are known.
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

    /// Completes the report of a conversion. `lens` contains the lengths of the committed files, in
    /// order. If the output has a receipt, the receipt follows these files in `committed`.
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

    /// Returns the JSON document that `--json` prints.
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
