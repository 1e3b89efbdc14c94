//! Builds the JSON documents of the pages that `inspect --html`, `diff --html` and `view` show in a
//! browser. `tensorferry-page` embeds each document in an HTML page.
//!
//! | File | Contents |
//! |---|---|
//! | `model.rs` | the document of models: tensors as columns, description, statistics, state, losses |
//! | `tensor_locations.rs` | the location of each tensor in its file, if known |
//! | `heat.rs` | heat maps of matrices, read in slices |
//! | `format_losses.rs` | content that other formats cannot store, by their writers' capabilities |
//! | `records.rs` | the document of a dataset: its columns and some rows |
//! | `sample.rs`, `pictures.rs` | distributions of the values in the first rows, and images |
//! | `diff.rs` | the document of a comparison |
//! | `output.rs` | the page as a file, written atomically |

mod diff;
mod format_losses;
mod heat;
mod model;
mod output;
mod pictures;
mod records;
mod sample;
mod tensor_locations;

pub(super) use diff::{DifferencesPage, differences};
pub(super) use heat::Heats;
pub(super) use model::{ModelPage, compact, models};
pub(super) use output::PageFile;
pub(super) use records::{RecordsPage, records};

use serde_json::Value;

/// Converts an integer to JSON. An integer that JavaScript would round becomes a string.
fn js_integer(number: u64) -> Value {
    const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;
    if number <= MAX_SAFE_INTEGER { number.into() } else { number.to_string().into() }
}

/// Returns the first `most` characters of a string, and the total number of characters in the
/// string.
fn truncated(text: &str, most: usize) -> (String, usize) {
    (text.chars().take(most).collect(), text.chars().count())
}
