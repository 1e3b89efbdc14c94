//! The records of a journal, and their representation as lines.

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

/// A line of a journal. `at` is the time. `output` is the path of the job's output, which
/// identifies the job, because job names may change.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(crate) enum Record {
    /// A run began. Contains the manifest, the version, the process ID and the machine of the run.
    Begin {
        at: String,
        ferry: String,
        manifest: PathBuf,
        process: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        host: Option<String>,
    },
    /// A file group was scanned. `key` identifies its files and the options for reading them.
    Scanned { key: String, scan: Box<GroupScan> },
    /// An output is staged and about to become visible. For a planned job, `key` is the same for
    /// all attempts.
    Commit {
        at: String,
        output: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        request: Box<Request>,
        made: Box<OutputRecord>,
    },
    /// Objects of the output are about to become visible. Objects become visible before the commit
    /// if they have to be read for a comparison. Only their lengths are known at this point.
    Visible { output: String, outputs: Vec<StampedFile> },
    /// The output is visible. If the output is in a store, `outputs` are its objects, whose
    /// identities are not known earlier.
    Done {
        output: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        outputs: Vec<StampedFile>,
    },
    /// A job failed permanently. The reason is a single line.
    Failed { at: String, output: String, reason: String },
    /// A run ended.
    End { at: String },
}

/// The recorded input and output of a job. Later runs use the record to decide whether the job must
/// run again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct OutputRecord {
    pub(crate) folder: PathBuf,
    /// The name of the output in the folder. `None` if the folder itself is the output.
    pub(crate) name: Option<String>,
    /// The formats that read the input.
    pub(crate) readers: Vec<UsedFormat>,
    /// The format that wrote the output.
    pub(crate) writer: UsedFormat,
    pub(crate) inputs: Vec<StampedFile>,
    /// A digest of the names in the input, if the input is a folder.
    pub(crate) listing: Option<String>,
    pub(crate) outputs: Vec<StampedFile>,
    pub(crate) summary: JobSummary,
}

impl OutputRecord {
    pub(crate) fn destination(&self) -> Destination {
        let kind = self.name.clone().map_or(DestinationKind::Folder, |name| DestinationKind::Beside { name });
        Destination { folder: self.folder.clone(), kind }
    }
}

impl Record {
    /// Creates the record for the beginning of a run in this process.
    pub(crate) fn begin(at: &str, manifest: &Path) -> Self {
        Self::Begin {
            at: at.to_owned(),
            ferry: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: manifest.to_owned(),
            process: std::process::id(),
            host: Some(this_host()),
        }
    }

    /// Parses a line. Returns `None` if the line's checksum is wrong.
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

pub(crate) fn this_host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn checksum(body: &str) -> String {
    blake3::hash(body.as_bytes()).to_hex()[..SUM_DIGITS].to_owned()
}
