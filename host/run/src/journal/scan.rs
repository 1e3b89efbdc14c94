//! A scan of a file group finds the schema of its records. The schemas of all file groups determine
//! the common schema of their dataset.

use super::files::StampedFile;
use crate::job::Job;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tensorferry::{Registry, UsedFormat};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct GroupScan {
    /// The format of the files.
    pub(crate) reader: UsedFormat,
    /// The files, with their state at the time of the scan.
    pub(crate) inputs: Vec<StampedFile>,
    /// The schema, in the same JSON form as a schema file.
    pub(crate) schema: Value,
    /// Whether the reader has an option for a schema file.
    pub(crate) takes_schema: bool,
}

impl GroupScan {
    /// Returns the key of a job's scan, which depends on the files and on the options for reading
    /// them. Returns `None` if the job's input is not a file group.
    pub(crate) fn key(job: &Job) -> Option<String> {
        let input = &job.request.input;
        let group = input.file_group.as_ref()?;
        // The key consists only of strings, so serialization cannot fail.
        let text = serde_json::to_vec(&(&group.folder, &group.files, &input.format, &input.options));
        Some(blake3::hash(&text.unwrap_or_default()).to_hex()[..32].to_owned())
    }

    /// Returns whether the files, and the format that reads them, are unchanged since the scan.
    pub(crate) fn is_valid(&self, registry: &Registry) -> bool {
        let mut formats = registry.formats().iter();
        let is_same = formats.any(|format| UsedFormat::of(format) == self.reader);
        is_same && self.inputs.iter().all(|file| file.check_input(registry.session()).is_ok())
    }
}
