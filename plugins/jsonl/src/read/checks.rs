//! Settings for the checks of lines.

use super::decode::ExactDecoders;
use super::values_seen::ValuesSeen;
use arrow_json::ReaderBuilder;
use std::sync::Arc;
use tensorferry_row_text::ColumnLosses;
use tensorferry_sdk::arrow_schema::Fields;

/// The lines from which the schema was inferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Basis {
    /// All lines. Every line is valid JSON, and all losses that concern keys have already been
    /// reported.
    AllLines,
    /// Sampled lines, without any losses. If another line would change the schema or add a loss,
    /// the guess was wrong.
    SampledLines,
    /// Lines that the user has limited, or none because the user set the schema.
    Given,
}

/// Settings for the line checks other than the type check.
pub(super) struct Checks {
    /// Whether a key that is not in the schema is an error.
    pub(super) is_strict: bool,
    pub(super) basis: Basis,
    pub(super) seen: Option<ValuesSeen>,
    pub(super) losses: ColumnLosses,
}

impl Checks {
    /// Makes a builder for columns use the decoders of this crate.
    pub(super) fn decoders(&self, builder: ReaderBuilder, columns: &Fields) -> ReaderBuilder {
        let looks_at_keys = self.basis != Basis::AllLines;
        let decoders = ExactDecoders::new(columns, self.losses.clone(), looks_at_keys);
        builder.with_strict_mode(self.is_strict).with_decoder_factory(Arc::new(decoders))
    }
}
