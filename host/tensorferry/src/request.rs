//! Conversions that a [`Request`] describes. [`Conversion`](crate::Conversion) is a builder for the
//! same conversions.

use crate::{RECORDS, Registry, Report};
use tensorferry_convert::convert;
pub use tensorferry_convert::observer::{ConversionObserver, PreparedCommit};
pub use tensorferry_convert::{InputRequest, OutputRequest, Request};
pub use tensorferry_core::read::file_group::FileGroup;
pub use tensorferry_core::read::losses::LossPolicy;
pub use tensorferry_core::read::part::Part;
pub use tensorferry_publish::commit::CommitOptions;
use tensorferry_sdk::Result;

impl Registry {
    /// Runs the conversion that `request` describes. `watch` receives the total number of bytes
    /// before the first byte is copied, and can stop the conversion before the output becomes
    /// visible.
    ///
    /// # Errors
    /// Returns an error if the conversion fails; no partial output is left behind.
    pub fn convert_as(&self, request: &Request, observer: &dyn ConversionObserver) -> Result<Report> {
        convert(request, self.as_ref(), self.session(), observer, RECORDS)
    }
}
