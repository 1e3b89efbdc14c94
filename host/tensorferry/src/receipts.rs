//! Receipts record what an output was made from and how. Outputs can be verified against them.

use crate::{RECORDS, Registry};
use std::path::PathBuf;
pub use tensorferry_convert::receipt::{Checked, Receipt, Verdict, find, is_name, output_of, path_for};
pub use tensorferry_convert::receipts::verify::Depth;
use tensorferry_convert::receipts::verify::verify_all;
use tensorferry_sdk::Result;

impl Registry {
    /// Compares outputs with their receipts, several at once. `each` is called with the verdicts in
    /// the order of the receipts.
    ///
    /// # Errors
    /// Returns an error if the session is cancelled or if `each` returns an error. A problem with
    /// an output is part of its verdict.
    pub fn verify(
        &self,
        receipts: &[PathBuf],
        depth: Depth,
        each: impl FnMut(Checked) -> Result<()>,
    ) -> Result<()> {
        verify_all(receipts, depth, self.as_ref(), self.session(), RECORDS, each)
    }
}
