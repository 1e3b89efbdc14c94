//! A scan of a file group finds the schema of its records, so that one schema can be found for a data set.

use super::files::StampedFile;
use crate::job::Job;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tensorferry::{Registry, UsedFormat};

/// What was found in the files of a group.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GroupScan {
    /// The format that they were read as.
    pub(crate) reader: UsedFormat,
    /// The files, and what they were then.
    pub(crate) inputs: Vec<StampedFile>,
    /// The schema, as a file of it is.
    pub(crate) schema: Value,
    /// Whether the reader takes such a file.
    pub(crate) takes_schema: bool,
}

impl GroupScan {
    /// The key of a job's scan: another for other files, or for the same ones read otherwise. None for a job
    /// that is no file group.
    pub(crate) fn key(job: &Job) -> Option<String> {
        let input = &job.request.input;
        let group = input.file_group.as_ref()?;
        // They are texts alone.
        let text = serde_json::to_vec(&(&group.folder, &group.files, &input.format, &input.options));
        Some(blake3::hash(&text.unwrap_or_default()).to_hex()[..32].to_owned())
    }

    /// Whether the files, and the format that reads them, are still what they were.
    pub(crate) fn is_valid(&self, registry: &Registry) -> bool {
        let mut formats = registry.formats().iter();
        let is_same = formats.any(|format| UsedFormat::of(format) == self.reader);
        is_same && self.inputs.iter().all(|file| file.check_input(registry.session()).is_ok())
    }
}
