//! Conversions as documents: what [`Conversion`](crate::Conversion) builds step by step.

use crate::{RECORDS, Registry, Report};
use tensorferry_convert::convert;
pub use tensorferry_convert::watch::{Ready, Watch};
pub use tensorferry_convert::{InputRequest, OutputRequest, Request};
pub use tensorferry_core::read::file_group::FileGroup;
pub use tensorferry_core::read::losses::LossPolicy;
pub use tensorferry_core::read::part::Part;
pub use tensorferry_publish::commit::CommitOptions;
use tensorferry_sdk::Result;

impl Registry {
    /// Converts as a request says. `watch` is told how many bytes there will be, before the first one moves, and asked before
    /// the output becomes visible.
    ///
    /// # Errors
    /// Whatever is wrong; nothing of the output is left then.
    pub fn convert_as(&self, request: &Request, watch: &dyn Watch) -> Result<Report> {
        convert(request, self.as_ref(), self.session(), watch, RECORDS)
    }
}
