//! A job is one conversion of a manifest: what is to be made, and with how much care.

use super::run::weigh;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tensorferry::engine::convert::Request;
use tensorferry::engine::publish::commit::CommitOptions;
use tensorferry::engine::read::part::Part;
use tensorferry::engine::read::unit::{SCHEMA, Unit};
use tensorferry_sdk::LossKind;

/// One conversion of a manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Unique in the manifest.
    pub name: String,
    /// What is to be made of what.
    pub conversion: Conversion,
    /// With how much care.
    pub care: Care,
}

/// Everything that a manifest says of what an output will be. A change of it makes the job run again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conversion {
    /// INPUT, absolute.
    pub input: String,
    /// OUTPUT, absolute; ends in `/` where it shall be a folder.
    pub output: String,
    /// `--from`.
    pub from: Option<String>,
    /// `--to`.
    pub to: Option<String>,
    /// `-i`.
    pub reader_options: Vec<(String, String)>,
    /// `-o`.
    pub writer_options: Vec<(String, String)>,
    /// `--part`.
    pub part: String,
    /// `--step`, in order.
    pub steps: Vec<String>,
    /// Names beside an input file that go along.
    pub carry: Vec<String>,
    /// `--strict`.
    pub strict: bool,
    /// `--allow-loss`: the kinds' words.
    pub allow_loss: Vec<String>,
    /// Of a data set: the files, of which INPUT is the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
}

/// How a job is run: changes nothing of the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Care {
    /// Read the output back before it becomes visible.
    pub verify: bool,
    /// Write a receipt with the output.
    pub receipt: bool,
    /// What may be replaced.
    pub force: Force,
    /// Bytes that the job's process may allocate.
    pub memory: Option<u64>,
    /// How long it may take.
    pub timeout: Timeout,
    /// How often a passing fault is tried again.
    pub retries: u32,
    /// The wait before the first retry; each further one is four times as long.
    pub retry_wait: Duration,
}

/// What an output may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Force {
    /// What this manifest's journal says that a run has written.
    #[default]
    Own,
    /// Whatever stands there, as `--force`; files that no run has written are kept beside it.
    Always,
    /// Nothing.
    Never,
}

/// How long a job may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Timeout {
    /// Ten minutes, and one more for each GiB of input.
    #[default]
    BySize,
    /// So long.
    After(Duration),
    /// For ever.
    Never,
}

impl Timeout {
    /// The time for an input of so many bytes.
    #[must_use]
    pub fn of(self, bytes: u64) -> Option<Duration> {
        match self {
            Self::BySize => Some(Duration::from_secs(600 + 60 * (bytes >> 30))),
            Self::After(time) => Some(time),
            Self::Never => None,
        }
    }
}

impl Default for Care {
    fn default() -> Self {
        Self {
            verify: false,
            receipt: true,
            force: Force::default(),
            memory: None,
            timeout: Timeout::default(),
            retries: 3,
            retry_wait: Duration::from_secs(1),
        }
    }
}

impl Job {
    /// Whether its data set's schema has to be fixed by the host: the user has not given one.
    pub(super) fn shares_schema(&self) -> bool {
        let is_given = self.conversion.reader_options.iter().any(|(option, _)| option == SCHEMA);
        self.conversion.unit.is_some() && !is_given
    }

    /// Whether it has to be fixed, and has not been.
    pub(super) fn lacks_schema(&self) -> bool {
        let has = self.conversion.unit.as_ref().is_some_and(|unit| unit.schema.is_some());
        self.shares_schema() && !has
    }

    /// About how many bytes its input has.
    #[must_use]
    pub(super) fn bytes(&self) -> u64 {
        let len = |path: PathBuf| std::fs::metadata(path).map_or(0, |meta| meta.len());
        match &self.conversion.unit {
            Some(unit) => unit.paths().map(len).sum(),
            None => weigh(Path::new(&self.conversion.input)),
        }
    }

    /// The conversion as `ferry convert` has it.
    #[must_use]
    pub fn request(&self, force: bool, dry_run: bool) -> Request {
        let c = &self.conversion;
        Request {
            input: PathBuf::from(&c.input),
            output: PathBuf::from(&c.output),
            from: c.from.clone(),
            to: c.to.clone(),
            reader_options: c.reader_options.clone(),
            writer_options: c.writer_options.clone(),
            part: Part::parse(&c.part),
            steps: c.steps.clone(),
            verify: self.care.verify,
            receipt: self.care.receipt && !dry_run,
            strict: c.strict,
            allowed: c.allow_loss.iter().filter_map(|word| LossKind::named(word)).collect(),
            carry: c.carry.clone(),
            unit: c.unit.clone(),
            dry_run,
            // A journal that says "done" must still be right after a power cut.
            commit: CommitOptions { force, sync: true },
        }
    }
}

impl Conversion {
    /// What another conversion into the same output has otherwise, in words; `None` if nothing.
    #[must_use]
    pub fn differs_from(&self, old: &Self) -> Option<String> {
        let options = |side: &str, new: &[(String, String)], old: &[(String, String)]| {
            (new != old).then(|| format!("{side} changed from {} to {}", listed(old), listed(new)))
        };
        let optional = |of: &Option<String>| of.clone().unwrap_or_else(|| "unset".to_owned());
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
            .map(|(what, new, old)| format!("{what} changed from {old:?} to {new:?}"))
            .or_else(|| options("in", &self.reader_options, &old.reader_options))
            .or_else(|| options("out", &self.writer_options, &old.writer_options))
            .or_else(|| match (&self.unit, &old.unit) {
                (Some(unit), Some(old)) => unit.differs_from(old),
                (None, None) => None,
                _ => Some("it is of another kind of entry now".to_owned()),
            })
    }
}

fn listed(options: &[(String, String)]) -> String {
    let texts: Vec<String> = options.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if texts.is_empty() { "nothing".to_owned() } else { texts.join(" ") }
}
