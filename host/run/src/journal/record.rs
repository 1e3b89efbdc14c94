//! The records of a journal, and how they stand in its lines.

use super::files::StampedFile;
use super::scan::GroupScan;
use crate::report::JobSummary;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tensorferry::UsedFormat;
use tensorferry::places::{Destination, DestinationKind};
use tensorferry::request::Request;
use tensorferry_sdk::{Error, Result};

const SUM: &str = ",\"sum\":\"";
const SUM_DIGITS: usize = 16;

/// One line of a journal. `at` is when, `output` the job's OUTPUT, which identifies it: names may change.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Record {
    /// A run began: of which manifest, by which version, process and machine.
    Begin {
        at: String,
        ferry: String,
        manifest: PathBuf,
        process: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// A file group was scanned; `key` stands for its files and how they are read.
    Scanned { key: String, scan: Box<GroupScan> },
    /// An output is staged, and is about to become visible. `key`: of a planned job, the same for all attempts at it.
    Commit {
        at: String,
        output: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        request: Box<Request>,
        made: Box<OutputRecord>,
    },
    /// Objects of it are about to become visible, to be compared before the commit. Their lengths are known.
    Visible { output: String, outputs: Vec<StampedFile> },
    /// It is visible. `outputs`: what its objects of a store were then, which is not known before.
    Done {
        output: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outputs: Vec<StampedFile>,
    },
    /// A job failed for good; the reason is one line.
    Failed { at: String, output: String, reason: String },
    /// A run came to its end.
    End { at: String },
}

/// What a job wrote, and from what: everything that tells later whether it must be written again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OutputRecord {
    /// The folder that the output lies in.
    pub(crate) folder: PathBuf,
    /// The output's name among others in the folder; none if the folder is its own.
    pub(crate) name: Option<String>,
    /// The formats that the input was read as.
    pub(crate) readers: Vec<UsedFormat>,
    /// The format that was written.
    pub(crate) writer: UsedFormat,
    /// Every file that was read.
    pub(crate) inputs: Vec<StampedFile>,
    /// Of an input folder, a digest of the names in it.
    pub(crate) listing: Option<String>,
    /// Every file of the output.
    pub(crate) outputs: Vec<StampedFile>,
    pub(crate) summary: JobSummary,
}

impl OutputRecord {
    /// Where the output goes.
    pub(crate) fn destination(&self) -> Destination {
        let kind = self.name.clone().map_or(DestinationKind::Folder, |name| DestinationKind::Beside { name });
        Destination { folder: self.folder.clone(), kind }
    }
}

impl Record {
    /// That a run of this process begins.
    pub(crate) fn begin(at: &str, manifest: &Path) -> Self {
        Self::Begin {
            at: at.to_owned(),
            ferry: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: manifest.to_owned(),
            process: std::process::id(),
            host: Some(this_host()),
        }
    }

    /// The record of a line; none if its checksum is wrong.
    pub(super) fn from_line(line: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(line).ok()?;
        let start = text.len().checked_sub(SUM.len() + SUM_DIGITS + "\"}".len())?;
        let (body, end) = text.split_at_checked(start)?;
        let sum = end.strip_prefix(SUM)?.strip_suffix("\"}")?;
        if checksum(body) != sum {
            return None;
        }
        serde_json::from_str(text).ok()
    }

    pub(super) fn to_line(&self) -> Result<String> {
        let json = serde_json::to_string(self).map_err(|e| Error::io(format!("the journal: {e}")))?;
        let body = json.strip_suffix('}').unwrap_or(&json);
        Ok(format!("{body}{SUM}{}\"}}\n", checksum(body)))
    }
}

/// The name of this machine.
pub(crate) fn this_host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn checksum(body: &str) -> String {
    blake3::hash(body.as_bytes()).to_hex()[..SUM_DIGITS].to_owned()
}
