//! Pages: what `inspect --html`, `diff --html` and `view` show in a browser, as the documents that `tensorferry-page` puts
//! into one.
//!
//! | File | What it yields |
//! |---|---|
//! | `model.rs` | the document of models: tensors by columns, description, statistics, state, losses |
//! | `places.rs` | where tensors lie, as far as files say it |
//! | `heat.rs` | values of a matrix as cells of a heat map, of slices that are read for it |
//! | `elsewhere.rs` | what other formats would not carry, by what their writers keep |
//! | `records.rs` | the document of records: columns, some rows |
//! | `sample.rs`, `pictures.rs` | how the values of the first rows are distributed; those that are pictures |
//! | `diff.rs` | the document of a difference |
//! | `output.rs` | the page as a file, whole or not there |

mod diff;
mod elsewhere;
mod heat;
mod model;
mod output;
mod pictures;
mod places;
mod records;
mod sample;

pub(super) use diff::{ShownDifferences, differences};
pub(super) use heat::Heats;
pub(super) use model::{ShownModel, compact, models};
pub(super) use output::PageFile;
pub(super) use records::{ShownRecords, records};

use serde_json::Value;

/// A whole number: one that JavaScript would round is a text.
fn whole(number: u64) -> Value {
    const MOST: u64 = (1 << 53) - 1;
    if number <= MOST { number.into() } else { number.to_string().into() }
}

/// A text of at most so many characters, and how many it has.
fn cut(text: &str, most: usize) -> (String, usize) {
    (text.chars().take(most).collect(), text.chars().count())
}
