//! A job is one conversion of a manifest: its request, and the settings for running it.

mod input_stamp;

pub(crate) use input_stamp::InputStamp;

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use tensorferry::request::{InputRequest, OutputRequest, Request};
use tensorferry::{LinkRules, Session};
use tensorferry_core::read::file_group::SCHEMA;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The job's name, which is unique in the manifest.
    pub name: String,
    /// The request. Each path in it is UTF-8, and is an absolute path or a URL.
    pub(crate) request: Request,
    pub(crate) policy: JobPolicy,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlannedWork {
    /// A digest of everything that determines the output's bytes. The digest is the same for every
    /// attempt.
    pub(crate) key: String,
    /// Size of the input in bytes.
    pub(crate) bytes: u64,
    /// Size of the buffers in bytes. The size determines how the writer divides records into
    /// pieces.
    pub(crate) memory: u64,
}

/// Settings that do not change the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobPolicy {
    /// Whether links to weights and records outside the root, or outside the input's folder, are
    /// followed.
    #[serde(default)]
    pub(crate) follow_links: bool,
    /// The root folder in which the input was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) root: Option<PathBuf>,
    pub(crate) force: Force,
    /// Maximum number of bytes that the process of the job may allocate.
    pub(crate) memory: Option<u64>,
    pub(crate) timeout: Timeout,
    /// Maximum number of retries after temporary failures.
    pub(crate) retries: u32,
    /// Wait before the first retry. Each further wait is four times as long.
    pub(crate) retry_wait: Duration,
}

/// The files that an output may replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Force {
    /// Files that a run has written, as the journal or the output's own receipt proves.
    #[default]
    Own,
    /// All files, as with `--force`. Files that no run has written are kept next to the output.
    Always,
    /// No files.
    Never,
}

/// The maximum duration of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum Timeout {
    /// Ten minutes, plus one minute for each GiB of input.
    #[default]
    BySize,
    After(Duration),
    Never,
}

impl Timeout {
    /// Returns the maximum duration for an input of this many bytes.
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
    /// Returns whether the host must determine the schema of the job's dataset, because the user
    /// has not passed a schema.
    pub(crate) fn shares_schema(&self) -> bool {
        let is_given = self.request.input.options.iter().any(|(option, _)| option == SCHEMA);
        self.request.input.file_group.is_some() && !is_given
    }

    /// Returns whether the host must still determine the schema of the job's dataset.
    pub(crate) fn lacks_schema(&self) -> bool {
        let has = self.request.input.file_group.as_ref().is_some_and(|group| group.schema.is_some());
        self.shares_schema() && !has
    }

    /// Returns which links in the input's folder are followed.
    pub(crate) fn links(&self) -> LinkRules {
        LinkRules { follow: self.policy.follow_links, root: self.policy.root.clone() }
    }

    /// Returns the state of the input before it is opened.
    pub(crate) fn input_stamp(&self, session: &Session) -> InputStamp {
        match &self.request.input.file_group {
            Some(group) => InputStamp::of_files(group, session),
            None => InputStamp::of_path(&self.request.input.path, session),
        }
    }

    pub(crate) fn input(&self) -> &str {
        self.request.input.path.to_str().unwrap_or_default()
    }

    pub(crate) fn output(&self) -> &str {
        self.request.output.path.to_str().unwrap_or_default()
    }

    /// Returns the parts of the request that determine the output's content.
    pub(crate) fn content_request(&self) -> Request {
        let Request { input, steps, output, losses, .. } = self.request.clone();
        Request {
            input: InputRequest { allow_empty: false, ..input },
            steps,
            output: OutputRequest {
                path: output.path,
                format: output.format,
                options: output.options,
                ..OutputRequest::default()
            },
            losses,
            dry_run: false,
        }
    }
}

/// Describes how a request differs from an older request for the same output. If there is a
/// difference, the job must run again.
pub(crate) fn difference(new: &Request, old: &Request) -> Option<String> {
    let options = |side: &str, new: &[(String, String)], old: &[(String, String)]| {
        (new != old).then(|| format!("{side} changed from {} to {}", listed(old), listed(new)))
    };
    let optional = |value: &Option<String>| value.clone().unwrap_or_else(|| "unset".to_owned());
    let texts = |request: &Request| {
        let Request { input, steps, output, losses, .. } = request;
        let allowed: Vec<&str> = losses.allowed.iter().map(|kind| kind.word()).collect();
        [
            ("input", input.path.display().to_string()),
            ("from", optional(&input.format)),
            ("to", optional(&output.format)),
            ("part", input.part.to_string()),
            ("steps", steps.join("; ")),
            (
                "companions",
                input.companions.as_ref().map_or_else(|| "unset".to_owned(), |globs| globs.join(", ")),
            ),
            ("strict", losses.strict.to_string()),
            ("allow_loss", allowed.join(", ")),
        ]
    };
    let mut changed = texts(new).into_iter().zip(texts(old)).filter(|(new, old)| new != old);
    changed
        .next()
        .map(|((key, new), (_, old))| format!("{key} changed from {old:?} to {new:?}"))
        .or_else(|| options("input_options", &new.input.options, &old.input.options))
        .or_else(|| options("output_options", &new.output.options, &old.output.options))
        .or_else(|| match (&new.input.file_group, &old.input.file_group) {
            (Some(group), Some(old)) => group.differs_from(old),
            (None, None) => None,
            _ => Some("it is now a different kind of entry".to_owned()),
        })
}

fn listed(options: &[(String, String)]) -> String {
    let texts: Vec<String> = options.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if texts.is_empty() { "nothing".to_owned() } else { texts.join(" ") }
}
