//! Comparing two inputs: the same tensors or records, or which of them differ.

use crate::{RECORDS, Registry};
use tensorferry_convert::compare::compare;
pub use tensorferry_convert::comparison::{
    ColumnDifference, ColumnDifferenceKind, Compared, Differences, Found, RecordDiff, tensors_json,
};
use tensorferry_sdk::Result;
pub use tensorferry_tensors::diff::{Difference, DifferenceKind, MaxDiff, Tolerance};
pub use tensorferry_tensors::expected;

impl Registry {
    /// Compares two inputs, whatever their formats.
    ///
    /// # Errors
    /// Usage, for options, parts or steps that neither input can have; whatever is wrong with either.
    pub fn compare(&self, request: &Compared<'_>) -> Result<Found> {
        compare(request, self.as_ref(), self.session(), RECORDS)
    }
}
