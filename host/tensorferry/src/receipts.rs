//! Receipts record the sources, options and digests of an output. A program can verify outputs
//! against their receipts.

use crate::{RECORDS, Registry};
use std::path::PathBuf;
pub use tensorferry_convert::receipt::{Receipt, Verdict, VerifyResult, find, is_name, output_of, path_for};
pub use tensorferry_convert::receipts::verify::VerifyOptions;
use tensorferry_convert::receipts::verify::verify_all;
use tensorferry_sdk::Result;

impl Registry {
    /// Compares outputs with their receipts in parallel. Calls `each` with each verdict, in the
    /// order of the receipts.
    ///
    /// # Errors
    /// Returns an error if the session is canceled or if `each` returns an error. Problems with an
    /// output are reported in its verdict.
    pub fn verify(
        &self,
        receipts: &[PathBuf],
        depth: VerifyOptions,
        each: impl FnMut(VerifyResult) -> Result<()>,
    ) -> Result<()> {
        verify_all(receipts, depth, self.as_ref(), self.session(), RECORDS, each)
    }
}
