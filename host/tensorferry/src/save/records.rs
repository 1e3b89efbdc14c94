//! Writes batches of records from memory.

use super::SaveOptions;
use crate::registry::Registry;
use arrow_array::RecordBatchReader;
use std::path::Path;
use tensorferry_convert::report::Report;
use tensorferry_records::conversion::saved::save_records;
use tensorferry_sdk::{Error, Result, arrow_array};

impl Registry {
    /// Writes a stream of record batches to a file or folder of records. The type of the batches is
    /// from version 60 of the crate `arrow-array`. The stream is read once, to its end. The output
    /// is complete or absent.
    ///
    /// # Errors
    /// Returns an error if the output's name does not imply a record format, or if `options`
    /// contains metadata or an unknown format or option. Also returns an error if the output
    /// exists, if the stream returns an error, or if writing fails.
    pub fn save_records(
        &self,
        path: impl AsRef<Path>,
        batches: Box<dyn RecordBatchReader + Send>,
        options: &SaveOptions,
    ) -> Result<Report> {
        if let Some((key, _)) = options.metadata.first() {
            let problem = Error::usage("records can only have the metadata in their schema");
            return Err(problem.hint("set the metadata in the schema of the stream").found(key));
        }
        let (output, session) = (options.output(path.as_ref()), self.session());
        session.install(|| save_records(output, batches, self.as_ref(), session))
    }
}
