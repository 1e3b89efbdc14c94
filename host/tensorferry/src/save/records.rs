//! Writing records that a program has as batches.

use super::SaveOptions;
use crate::registry::Registry;
use arrow_array::RecordBatchReader;
use std::path::Path;
use tensorferry_convert::report::Report;
use tensorferry_records::conversion::saved::save_records;
use tensorferry_sdk::{Error, Result, arrow_array};

impl Registry {
    /// Writes the batches of the crate `arrow-array`, version 60, of a stream into a file or folder of records. The
    /// stream is pulled once, to its end; the output is whole or absent.
    ///
    /// # Errors
    /// Usage, for a name that says no format, a format of tensors, metadata, a format or option that is not there, or
    /// an output that is there already; what the stream gives; whatever writing gives.
    pub fn save_records(
        &self,
        path: impl AsRef<Path>,
        batches: Box<dyn RecordBatchReader + Send>,
        options: &SaveOptions,
    ) -> Result<Report> {
        if let Some((key, _)) = options.metadata.first() {
            let problem = Error::usage("metadata of records is that of the stream's schema");
            return Err(problem.expected("none given beside it").found(key));
        }
        let (output, session) = (options.output(path.as_ref()), self.session());
        session.install(|| save_records(output, batches, self.as_ref(), session))
    }
}
