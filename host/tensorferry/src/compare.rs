//! Compares two inputs, and reports the tensors or records that differ.

use crate::{RECORDS, Registry};
use tensorferry_convert::compare::compare;
pub use tensorferry_convert::comparison::{
    ColumnDifference, ColumnDifferenceKind, CompareRequest, ComparisonResult, Differences, RecordDiff,
    tensors_json,
};
use tensorferry_sdk::Result;
pub use tensorferry_tensors::diff::{Difference, DifferenceKind, MaxDiff, Tolerance};
pub use tensorferry_tensors::expected;

impl Registry {
    /// Compares two inputs, which may have different formats.
    ///
    /// # Errors
    /// Returns an error if an option, part or step applies to neither input, or if an input is
    /// malformed or cannot be read.
    pub fn compare(&self, request: &CompareRequest<'_>) -> Result<ComparisonResult> {
        compare(request, self.as_ref(), self.session(), RECORDS)
    }
}
