//! A job is one conversion of a manifest: what is converted, and how the job is run.

mod input_stamp;

pub(crate) use input_stamp::InputStamp;

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tensorferry::request::{
    CommitOptions, FileGroup, InputRequest, LossPolicy, OutputRequest, Part, Request,
};
use tensorferry::values::Algorithm;
use tensorferry::{LinkRules, Session};
use tensorferry_core::read::file_group::SCHEMA;
use tensorferry_sdk::LossKind;

/// One conversion of a manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Unique in the manifest.
    pub name: String,
    pub(crate) conversion: Conversion,
    pub(crate) policy: JobPolicy,
}

/// What a plan says of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlannedWork {
    /// A digest of all that its output's bytes follow from: the same for every attempt at it.
    pub(crate) key: String,
    /// Bytes of its input.
    pub(crate) bytes: u64,
    /// Bytes of its buffers: where pieces of records end follows from it.
    pub(crate) memory: u64,
}

/// Everything in a manifest that decides what an output will be. A change of it makes the job run again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Conversion {
    /// INPUT, absolute, or a URL.
    pub(crate) input: String,
    /// OUTPUT, absolute; ends in `/` where it shall be a folder.
    pub(crate) output: String,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    /// `-i`.
    pub(crate) reader_options: Vec<(String, String)>,
    /// `-o`.
    pub(crate) writer_options: Vec<(String, String)>,
    pub(crate) part: String,
    /// In order.
    pub(crate) steps: Vec<String>,
    /// Names of files beside an input file that are copied with it.
    pub(crate) carry: Vec<String>,
    pub(crate) strict: bool,
    /// The words of the kinds of losses.
    pub(crate) allow_loss: Vec<String>,
    /// For a data set: the files that are read as one input. INPUT is the first of them.
    #[serde(rename = "unit", skip_serializing_if = "Option::is_none")]
    pub(crate) file_group: Option<FileGroup>,
}

/// How a job is run; changes nothing in the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobPolicy {
    /// Read the output back before it becomes visible.
    pub(crate) verify: bool,
    /// Write a receipt with the output, its files hashed by this.
    pub(crate) receipt: Option<Algorithm>,
    /// Convert an input without a tensor or a record.
    #[serde(default)]
    pub(crate) allow_empty: bool,
    /// Read weights and records outside the root, or outside the input's folder.
    #[serde(default)]
    pub(crate) follow_links: bool,
    /// The root that the input was found below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) root: Option<PathBuf>,
    pub(crate) force: Force,
    /// Bytes that the job's process may allocate.
    pub(crate) memory: Option<u64>,
    pub(crate) timeout: Timeout,
    /// How often a passing fault is tried again.
    pub(crate) retries: u32,
    /// The wait before the first retry; each further one is four times as long.
    pub(crate) retry_wait: Duration,
}

/// What an output may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Force {
    /// What a run has written, as the journal or the output's own receipt proves.
    #[default]
    Own,
    /// Whatever stands there, as `--force`; files that no run has written are kept beside it.
    Always,
    /// Nothing.
    Never,
}

/// How long a job may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum Timeout {
    /// Ten minutes, and one more for each GiB of input.
    #[default]
    BySize,
    After(Duration),
    Never,
}

impl Timeout {
    /// The time for an input of so many bytes.
    pub(crate) fn for_bytes(self, bytes: u64) -> Option<Duration> {
        match self {
            Self::BySize => Some(Duration::from_secs(600 + 60 * (bytes >> 30))),
            Self::After(time) => Some(time),
            Self::Never => None,
        }
    }
}

impl Default for JobPolicy {
    fn default() -> Self {
        Self {
            verify: false,
            receipt: Some(Algorithm::Sha256),
            allow_empty: false,
            follow_links: false,
            root: None,
            force: Force::default(),
            memory: None,
            timeout: Timeout::default(),
            retries: 3,
            retry_wait: Duration::from_secs(1),
        }
    }
}

impl Job {
    /// Whether the host has to find its data set's schema: the user has not given one.
    pub(crate) fn shares_schema(&self) -> bool {
        let is_given = self.conversion.reader_options.iter().any(|(option, _)| option == SCHEMA);
        self.conversion.file_group.is_some() && !is_given
    }

    /// Whether the host has to find that schema, and has not found it.
    pub(crate) fn lacks_schema(&self) -> bool {
        let has = self.conversion.file_group.as_ref().is_some_and(|group| group.schema.is_some());
        self.shares_schema() && !has
    }

    /// Which links of its input's folder are followed.
    pub(crate) fn links(&self) -> LinkRules {
        LinkRules { follow: self.policy.follow_links, root: self.policy.root.clone() }
    }

    /// What its input is before it is opened.
    pub(crate) fn input_stamp(&self, session: &Session) -> InputStamp {
        match &self.conversion.file_group {
            Some(group) => InputStamp::of_files(group, session),
            None => InputStamp::of_path(Path::new(&self.conversion.input), session),
        }
    }

    /// The conversion as `ferry convert` has it.
    pub(crate) fn request(&self, force: bool, dry_run: bool) -> Request {
        let c = &self.conversion;
        Request {
            input: InputRequest {
                path: PathBuf::from(&c.input),
                format: c.from.clone(),
                options: c.reader_options.clone(),
                part: Part::parse(&c.part),
                file_group: c.file_group.clone(),
                carry: c.carry.clone(),
                allow_empty: self.policy.allow_empty,
            },
            steps: c.steps.clone(),
            output: OutputRequest {
                path: PathBuf::from(&c.output),
                format: c.to.clone(),
                options: c.writer_options.clone(),
                verify: self.policy.verify,
                receipt: self.policy.receipt.filter(|_| !dry_run),
                // A journal that says "done" must still be right after a power cut.
                commit: CommitOptions { force, sync: true },
                earlier: Vec::new(),
            },
            losses: LossPolicy {
                strict: c.strict,
                allowed: c.allow_loss.iter().filter_map(|word| LossKind::named(word)).collect(),
            },
            dry_run,
        }
    }
}

impl Conversion {
    /// How it differs from another conversion into the same output, in words; `None` if it does not.
    pub(crate) fn differs_from(&self, old: &Self) -> Option<String> {
        let options = |side: &str, new: &[(String, String)], old: &[(String, String)]| {
            (new != old).then(|| format!("{side} changed from {} to {}", listed(old), listed(new)))
        };
        let optional = |value: &Option<String>| value.clone().unwrap_or_else(|| "unset".to_owned());
        let texts = [
            ("input", self.input.clone(), old.input.clone()),
            ("from", optional(&self.from), optional(&old.from)),
            ("to", optional(&self.to), optional(&old.to)),
            ("part", self.part.clone(), old.part.clone()),
            ("steps", self.steps.join("; "), old.steps.join("; ")),
            ("sidecars", self.carry.join(", "), old.carry.join(", ")),
            ("strict", self.strict.to_string(), old.strict.to_string()),
            ("allow_loss", self.allow_loss.join(", "), old.allow_loss.join(", ")),
        ];
        let changed = texts.into_iter().find(|(_, new, old)| new != old);
        changed
            .map(|(key, new, old)| format!("{key} changed from {old:?} to {new:?}"))
            .or_else(|| options("in", &self.reader_options, &old.reader_options))
            .or_else(|| options("out", &self.writer_options, &old.writer_options))
            .or_else(|| match (&self.file_group, &old.file_group) {
                (Some(group), Some(old)) => group.differs_from(old),
                (None, None) => None,
                _ => Some("it is of another kind of entry now".to_owned()),
            })
    }
}

fn listed(options: &[(String, String)]) -> String {
    let texts: Vec<String> = options.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if texts.is_empty() { "nothing".to_owned() } else { texts.join(" ") }
}
